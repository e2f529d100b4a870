"""Personal data in the audit trail: its export, and its replacement by a pseudonym."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from authsvc.audit.models import AuditLogEntry
from authsvc.audit.search import HAS_OTHER_ACTOR, OWNER_ID
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.personal_data import DataSubject, Row, export_rows, pseudonym

_BATCH_SIZE = 500
_IMPERSONAL_KEYS = frozenset({"action", "log_type", "actor_id", "actor_via_sso", "actor_role"})
# Traits whose values do not identify a user.
_IMPERSONAL_TRAITS = frozenset(
    {
        "aal", "action", "cause", "channel", "chain", "client_id", "ends_at", "error_code", "factor_status",
        "factor_type", "is_soft", "link_type", "message_type", "method", "network", "oauth_client_id", "provider",
        "provider_type", "remaining", "request", "sessions",
    }
)  # fmt: skip


class AuditPersonalData:
    """Entries whose actor or subject is the user."""

    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "audit_log_entries", export_rows(entries_of(data_subject.id).order_by("created_at", "id"))

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        return {}  # entries are kept; `pseudonymise_entries` removes the user from them


def pseudonymise_entries(data_subject: DataSubject, *, keep_id: bool) -> Iterator[int]:
    """Replace the user by a pseudonym in every entry about them. Yields the size of each committed batch.

    An entry keeps its id, time and action. The function can be interrupted and run again.
    """
    entry_ids = entries_of(data_subject.id).values_list("id", flat=True).iterator(chunk_size=_BATCH_SIZE)
    for ids in _batches(entry_ids):
        with transaction.atomic(durable=True):
            locked = AuditLogEntry.objects.select_for_update().filter(id__in=ids).values_list("id", "payload")
            changed = []
            for id_, stored in locked:
                payload = stored if isinstance(stored, dict) else {}
                replaced = pseudonymise_payload(payload, data_subject=data_subject, keep_id=keep_id)
                changed.append((str(id_), orjson.dumps(replaced).decode()))
            fetch_rows(
                f"UPDATE {namespaced('audit_log_entries')} e SET payload = n.payload::jsonb, ip_address = ''"  # noqa: S608  (own name)
                " FROM unnest(%s::uuid[], %s::text[]) n (id, payload) WHERE e.id = n.id",
                ([id_ for id_, _ in changed], [payload for _, payload in changed]),
            )
        yield len(changed)


def pseudonymise_payload(payload: Mapping[str, Any], *, data_subject: DataSubject, keep_id: bool) -> dict[str, Any]:
    """The payload of an audit entry with a pseudonym in place of the user's id, names and addresses.

    Only listed keys are known to be impersonal; the value of every other key is replaced too.
    """
    own_id, name = str(data_subject.id), str(pseudonym(data_subject.id))
    shown_id = own_id if keep_id else name
    pseudonymised = {key: value for key, value in payload.items() if key in _IMPERSONAL_KEYS}
    names = {key: payload[key] for key in ("actor_username", "actor_name") if key in payload}
    if payload.get("actor_id") == own_id:
        pseudonymised["actor_id"] = shown_id
        names = {key: name if value else value for key, value in names.items()}
    pseudonymised |= names
    if "impersonator_id" in payload:
        is_impersonator = payload["impersonator_id"] == own_id
        pseudonymised["impersonator_id"] = shown_id if is_impersonator else payload["impersonator_id"]
        pseudonymised["impersonator_username"] = name if is_impersonator else payload.get("impersonator_username")
    traits = payload.get("traits")
    if isinstance(traits, dict):
        # An entry of an administrator without a user is about the installation, and any other one about its actor.
        is_about_subject = traits.get("user_id", "" if "actor_role" in payload else payload.get("actor_id")) == own_id
        named = {key for key, value in traits.items() if is_about_subject and value and key not in _IMPERSONAL_TRAITS}
        pseudonymised["traits"] = {
            key: shown_id if value == own_id else name if key in named else value for key, value in traits.items()
        }
    return pseudonymised


def has_entries_of_pseudonym(pseudonym_id: UUID) -> bool:
    """True if an entry contains this pseudonym, so that its user has been erased."""
    return entries_of(pseudonym_id).exists()


def _batches(ids: Iterator[UUID]) -> Iterator[list[UUID]]:
    while batch := list(islice(ids, _BATCH_SIZE)):
        yield batch


def entries_of(user_id: UUID) -> QuerySet[AuditLogEntry]:
    """Entries that belong to a user, or name the user as actor on another one or as impersonator.

    Each condition uses an index.
    """
    sql = (
        f"({OWNER_ID} = %s OR (payload ->> 'actor_id' = %s AND {HAS_OTHER_ACTOR})"
        " OR payload ->> 'impersonator_id' = %s)"
    )
    return AuditLogEntry.objects.filter(RawSQL(sql, [str(user_id)] * 3, output_field=BooleanField()))  # noqa: S611  (own text)
