"""Erasing a person: the account and everything about it, with the audit trail kept and their name taken out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.models import Identity, User
from accounts.users import deletion
from authsvc import audit, personal_data
from authsvc.audit import erasure
from authsvc.caller import Caller
from authsvc.personal_data import DataSubject

_REWRITTEN = "audit_log_entries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What one run has done; table → rows."""

    pseudonym: UUID
    """What the audit trail calls the person now."""
    removed: Mapping[str, int]
    rewritten: Mapping[str, int]
    left: Mapping[str, int]
    """What could not be removed at this moment: a message on its way out. Another run will."""


def erase(
    person: DataSubject,
    *,
    keep_id: bool,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
    note: Callable[[int], None],
) -> Erased:
    """Erase everything about a person that is there: all, or with `keep_id` all but the id and what belongs to it.

    `note` is told how many entries of the audit trail have been rewritten since it was last told. May be interrupted
    and run again, also when the user's row is gone already.
    """
    before = _held(person)
    if before["users"]:
        # First, so that nobody signs in and leaves new traces behind the ones that are taken away.
        deletion.delete(person.id, soft=keep_id, actor=actor, caller=caller, at=at)
    with transaction.atomic(durable=True):
        if keep_id:
            _empty(person.id, at=at)
        for source in personal_data.sources():
            source.erase(person)
    rewritten = 0
    for number in erasure.pseudonymise_entries(person, keep_id=keep_id):
        rewritten += number
        note(number)
    after = _held(person)
    left = {table: number for table, number in after.items() if not (keep_id and table == "users")}
    return Erased(
        pseudonym=personal_data.pseudonym(person.id),
        removed=dict(before - after),
        rewritten={_REWRITTEN: rewritten, **({"users": after["users"]} if keep_id else {})},
        left=left,
    )


def is_known(person: DataSubject) -> bool:
    """Whether anything about a person is there, if only what an earlier erasure has left in the audit trail."""
    held = any(True for source in personal_data.sources() for _, rows in source.export(person) for _ in rows)
    return held or erasure.has_entries_of_pseudonym(personal_data.pseudonym(person.id))


def _held(person: DataSubject) -> Counter[str]:
    """Table → rows about the person; the audit trail, of which nothing is removed, is not among them."""
    return Counter(
        table
        for source in personal_data.sources()
        for table, rows in source.export(person)
        if table != _REWRITTEN
        for _ in rows
    )


def _empty(user_id: UUID, *, at: datetime) -> None:
    """What deletion leaves in a row it keeps can be tried: whether somebody's address was this one, and when they came.

    Joins the caller's transaction.
    """
    nothing = [f"{name}_sent_at" for name in ("confirmation", "recovery", "email_change", "phone_change")]
    nothing += ["reauthentication_sent_at", "invited_at", "email_confirmed_at", "phone_confirmed_at", "last_sign_in_at"]
    User.objects.filter(id=user_id).update(
        email=None, phone=None, email_change="", phone_change="", updated_at=at, **dict.fromkeys(nothing)
    )
    Identity.objects.filter(user_id=user_id).delete_rows()
    deletion.drop_factors(user_id)
