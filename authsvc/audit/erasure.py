"""What the base kit holds about a person: entries of the audit trail, and counters of limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from authsvc import audit
from authsvc.db.sql import namespaced, rows
from authsvc.models import AuditLogEntry, RateLimit
from authsvc.personal_data import Person, Row, pseudonym, shown

_AT_ONCE = 500
_IMPERSONAL = frozenset({"action", "log_type", "actor_id", "actor_via_sso"})
# What a trait of these names says is the same for many people.
_IMPERSONAL_TRAITS = frozenset(
    {
        "action", "channel", "chain", "client_id", "factor_status", "factor_type", "network", "oauth_client_id",
        "provider", "provider_type", "remaining",
    }
)  # fmt: skip


class Counters:
    """Limits that count against an address or a number of the person, or against something that is theirs."""

    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "rate_limits", shown(_counters(person))

    def forget(self, person: Person) -> Mapping[str, int]:
        return {"rate_limits": _counters(person)._raw_delete("default")}


def _counters(person: Person) -> QuerySet[RateLimit]:
    # Counters of one thing that somebody has begin with their id.
    return RateLimit.objects.filter(Q(key__in=person.addresses) | Q(key__startswith=f"{person.id}/"))


class AuditTrail:
    """Entries that the person made, or that are about them."""

    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "audit_log_entries", shown(_entries(person.id).order_by("created_at", "id"))

    def forget(self, person: Person) -> Mapping[str, int]:
        return {}  # what was done stays known; who it was is taken out by `anonymise`


def anonymise(person: Person, *, keep_id: bool) -> Iterator[int]:
    """Put a pseudonym for the person into every entry about them; yields how many, batch by batch, each committed.

    An entry keeps its id, its time and its action. May be interrupted and run again.
    """
    found = _entries(person.id).values_list("id", flat=True).iterator(chunk_size=_AT_ONCE)
    for ids in _batches(found):
        with transaction.atomic(durable=True):
            held = AuditLogEntry.objects.select_for_update().filter(id__in=ids).values_list("id", "payload")
            changed = [
                (str(id_), orjson.dumps(without_person(payload or {}, person=person, keep_id=keep_id)).decode())
                for id_, payload in held
            ]
            rows(
                f"UPDATE {namespaced('audit_log_entries')} e SET payload = n.payload::jsonb, ip_address = ''"  # noqa: S608  (own name)
                " FROM unnest(%s::uuid[], %s::text[]) n (id, payload) WHERE e.id = n.id",
                ([id_ for id_, _ in changed], [payload for _, payload in changed]),
            )
        yield len(changed)


def without_person(payload: Mapping[str, Any], *, person: Person, keep_id: bool) -> dict[str, Any]:
    """The payload of an audit entry with the person's pseudonym for their id, names and addresses.

    Known to be impersonal are few keys; every other that has a value gets the pseudonym too.
    """
    own_id, name = str(person.id), str(pseudonym(person.id))
    known_as = own_id if keep_id else name
    kept = {key: value for key, value in payload.items() if key in _IMPERSONAL}
    names = {key: payload[key] for key in ("actor_username", "actor_name") if key in payload}
    if payload.get("actor_id") == own_id:
        kept["actor_id"] = known_as
        names = {key: name if value else value for key, value in names.items()}
    kept |= names
    traits = payload.get("traits")
    if isinstance(traits, dict):
        is_about_person = traits.get("user_id", own_id) == own_id
        named = {key for key, value in traits.items() if is_about_person and value and key not in _IMPERSONAL_TRAITS}
        kept["traits"] = {
            key: known_as if value == own_id else name if key in named else value for key, value in traits.items()
        }
    return kept


def is_in_trail(pseudonymous: UUID) -> bool:
    """Whether an entry names this pseudonym: its person has been erased."""
    return _entries(pseudonymous).exists()


def _batches(ids: Iterator[UUID]) -> Iterator[list[UUID]]:
    while batch := list(islice(ids, _AT_ONCE)):
        yield batch


def _entries(user_id: UUID) -> QuerySet[AuditLogEntry]:
    """Entries that belong to a user, or name them as who has acted on another; by an index each."""
    sql = f"({audit.ABOUT} = %s OR (payload ->> 'actor_id' = %s AND {audit.ACTED_ON_ANOTHER}))"
    return AuditLogEntry.objects.filter(RawSQL(sql, [str(user_id)] * 2, output_field=BooleanField()))  # noqa: S611  (own text)
