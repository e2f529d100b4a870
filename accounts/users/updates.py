"""Column values for updates of a user: JSON columns by key, and the withdrawal of pending changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import F, Func, JSONField, TextField, Value
from django.db.models.functions import Cast

from accounts.users.records import UserRecord

_MESSAGES = ("recovery", "email_change", "phone_change", "reauthentication")


def merged_json(column: str, values: Mapping[str, Any]) -> Func:
    """The column with these top-level keys replaced, or deleted where the value is None. NULL counts as `{}`.

    The database merges them, so that concurrent updates of other keys are not lost.
    """
    assigned = {key: value for key, value in values.items() if value is not None}
    removed_keys = [key for key in values if key not in assigned]
    current = Func(F(column), template="coalesce(%(expressions)s, '{}'::jsonb)")
    result = _between(current, "||", Value(assigned, JSONField()))
    return _between(result, "-", Cast(Value(removed_keys), ArrayField(TextField()))) if removed_keys else result


def named_providers(user: UserRecord, *added: str) -> dict[str, Any]:
    """Column values by which `app_metadata` names the providers of the user and `added`; empty if it does already.

    They are then not written again, because an identity may have been linked or unlinked since the row was read.
    """
    providers = list(dict.fromkeys([*user.providers, *added]))
    if providers == user.providers and user.names_providers:
        return {}
    return {"raw_app_meta_data": merged_json("raw_app_meta_data", {"provider": providers[0], "providers": providers})}


def cleared_pending_changes(*, keeps_confirmation: bool = False) -> dict[str, Any]:
    """Column values that withdraw every pending change of a user, for use when the password or the owner changes.

    Otherwise a client that knows the address could resend the pending change to the user who requested it.
    With `keeps_confirmation` the account still states when its confirmation was sent.
    """
    return {
        "email_change": "",
        "phone_change": "",
        "email_change_confirm_status": 0,
        **{f"{message}_sent_at": None for message in _MESSAGES},
        **({} if keeps_confirmation else {"confirmation_sent_at": None}),
    }


def _between(left: Func, operator: str, right: Func | Value) -> Func:
    return Func(left, right, template="(%(expressions)s)", arg_joiner=f" {operator} ", output_field=JSONField())
