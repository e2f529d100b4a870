"""The audit trail: a row in the transaction of what it reports, and a log line; and reading it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid4

import orjson

from authsvc import clock, conf
from authsvc.caller import Caller
from authsvc.db.sql import namespaced, planned, rows

logger = logging.getLogger("authsvc.audit")


class Actor(Protocol):
    """A user."""

    @property
    def id(self) -> UUID: ...
    @property
    def email(self) -> str: ...
    @property
    def phone(self) -> str: ...
    @property
    def is_sso_user(self) -> bool: ...
    @property
    def full_name(self) -> object:
        """`user_metadata.full_name`, None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Administrator:
    """Who acts by role and not by name, the person behind a session of their own included."""

    role: str

    @property
    def id(self) -> UUID:
        return UUID(int=0)

    @property
    def email(self) -> str:
        return self.role

    @property
    def phone(self) -> str:
        return ""

    @property
    def is_sso_user(self) -> bool:
        return False

    @property
    def full_name(self) -> object:
        return None


class Action(StrEnum):
    LOGIN = "login"
    LOGOUT = "logout"
    INVITE_ACCEPTED = "invite_accepted"
    SIGNED_UP = "user_signedup"
    INVITED = "user_invited"
    DELETED = "user_deleted"
    MODIFIED = "user_modified"
    RECOVERY_REQUESTED = "user_recovery_requested"
    REAUTHENTICATION_REQUESTED = "user_reauthenticate_requested"
    CONFIRMATION_REQUESTED = "user_confirmation_requested"
    REPEATED_SIGNUP = "user_repeated_signup"
    UPDATED_PASSWORD = "user_updated_password"
    TOKEN_REVOKED = "token_revoked"
    TOKEN_REFRESHED = "token_refreshed"
    IDENTITY_LINKED = "identity_linked"
    IDENTITY_UNLINKED = "identity_unlinked"
    FACTOR_ENROLLED = "factor_in_progress"
    CHALLENGE_CREATED = "challenge_created"
    FACTOR_VERIFIED = "verification_attempted"
    FACTOR_UNENROLLED = "factor_unenrolled"
    FACTOR_DELETED = "factor_deleted"
    FACTOR_UPDATED = "factor_updated"
    RECOVERY_CODES_CREATED = "recovery_codes_created"
    RECOVERY_CODE_USED = "recovery_code_used"
    PASSKEY_CREATED = "passkey_created"
    PASSKEY_UPDATED = "passkey_updated"
    PASSKEY_DELETED = "passkey_deleted"


_LOG_TYPES = {
    "account": (Action.LOGIN, Action.LOGOUT, Action.INVITE_ACCEPTED),
    "team": (Action.SIGNED_UP, Action.INVITED, Action.DELETED),
    "user": (
        Action.MODIFIED, Action.RECOVERY_REQUESTED, Action.REAUTHENTICATION_REQUESTED, Action.CONFIRMATION_REQUESTED,
        Action.REPEATED_SIGNUP, Action.UPDATED_PASSWORD, Action.IDENTITY_LINKED, Action.IDENTITY_UNLINKED,
        Action.PASSKEY_CREATED, Action.PASSKEY_UPDATED, Action.PASSKEY_DELETED,
    ),
    "token": (Action.TOKEN_REVOKED, Action.TOKEN_REFRESHED),
    "factor": (
        Action.FACTOR_ENROLLED, Action.CHALLENGE_CREATED, Action.FACTOR_VERIFIED, Action.FACTOR_UNENROLLED,
        Action.FACTOR_DELETED, Action.FACTOR_UPDATED, Action.RECOVERY_CODES_CREATED, Action.RECOVERY_CODE_USED,
    ),
}  # fmt: skip
_LOG_TYPE_OF = {action: log_type for log_type, actions in _LOG_TYPES.items() for action in actions}

# What changes how somebody can sign in says from where it was done; other entries have an empty address.
_WITH_ADDRESS = frozenset(
    {
        Action.IDENTITY_LINKED, Action.IDENTITY_UNLINKED, Action.FACTOR_ENROLLED, Action.CHALLENGE_CREATED,
        Action.FACTOR_VERIFIED, Action.FACTOR_UNENROLLED, Action.FACTOR_DELETED, Action.PASSKEY_CREATED,
        Action.PASSKEY_UPDATED, Action.PASSKEY_DELETED, Action.RECOVERY_CODES_CREATED, Action.RECOVERY_CODE_USED,
    }
)  # fmt: skip


class NewEntry(NamedTuple):
    """What is to be stored of an action, by `record` or by a statement that stores more with it."""

    id: UUID
    payload: str | None
    """JSON; None where the operator keeps no entries in the database."""
    address: str = ""


_last: ContextVar[Mapping[str, Any] | None] = ContextVar("last_audit_entry", default=None)


def last() -> Mapping[str, Any] | None:
    """The payload of the last entry since `forget_last`, in this request."""
    return _last.get()


def forget_last() -> None:
    _last.set(None)


def record(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> None:
    """Note an action of `actor`. One statement; joins the caller's transaction."""
    noted = entry(action, actor=actor, caller=caller, at=at, traits=traits)
    if noted.payload is not None:
        rows(
            f"INSERT INTO {namespaced('audit_log_entries')} (id, payload, created_at, ip_address)"  # noqa: S608  (own name)
            " VALUES (%s, %s::jsonb, %s, %s)",
            (noted.id, noted.payload, at, noted.address),
        )


def entry(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> NewEntry:
    """Write the log line of an action; the entry is left for the caller to store."""
    payload: dict[str, Any] = {
        "actor_id": str(actor.id),
        "actor_via_sso": actor.is_sso_user,
        "actor_username": actor.phone or actor.email,
        "action": action,
        "log_type": _LOG_TYPE_OF[action],
    }
    if actor.full_name is not None:
        payload["actor_name"] = actor.full_name
    if traits:
        payload["traits"] = dict(traits)
    _last.set(payload)
    entry_id = uuid4()
    address = caller.address if action in _WITH_ADDRESS else ""
    if logger.isEnabledFor(logging.INFO):
        event = {**payload, "audit_log_id": str(entry_id), "ip_address": address, "created_at": clock.rfc3339(at)}
        event |= {k: v for k, v in (("request_id", caller.request_id), ("user_agent", caller.user_agent)) if v}
        logger.info("audit_event", extra={"auth_audit_event": event})
    stored = None if conf.current().audit.disable_postgres else orjson.dumps(payload).decode()
    return NewEntry(id=entry_id, payload=stored, address=address)


SCOPES: Mapping[str, tuple[str, ...]] = {
    "author": ("actor_username", "actor_name"),
    "action": ("action",),
    "type": ("log_type",),
}
"""What entries can be searched by → the keys of the payload that are looked at."""
_COUNTED = 10_000

# As the index has it: an entry belongs to the user whom an administrator has acted on, or else to who has acted.
ABOUT = "COALESCE(payload -> 'traits' ->> 'user_id', payload ->> 'actor_id')"
ACTED_ON_ANOTHER = (
    f"(payload -> 'traits' ->> 'user_id' <> payload ->> 'actor_id' AND payload ->> 'actor_id' <> '{UUID(int=0)}')"
)
"""Of an entry that belongs to one user and names another; as the index of those has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry as read; the payload as JSON text."""

    id: UUID
    payload_json: str
    created_at: datetime | None
    address: str


def search(*, scope: str, value: str, limit: int, offset: int, count_exactly: bool) -> tuple[list[Entry], int]:
    """Entries, newest first, that have `value` in what `scope` looks at, and how many there are in all.

    `%` and `_` in the value stand for any text and any character; an empty value is in every entry. The number is
    exact up to 10,000, beyond that what the planner expects unless it is to be counted.
    """
    keys = SCOPES[scope] if value else ()
    condition = " OR ".join(f"payload ->> '{key}' ILIKE %s" for key in keys) or "true"
    values: list[Any] = [f"%{value}%"] * len(keys)
    found = _read(f"{condition}", values, limit=limit, offset=offset)
    if len(found) < limit and (found or not offset):
        return found, offset + len(found)
    matching = f"SELECT FROM {namespaced('audit_log_entries')} WHERE {condition}"
    if not count_exactly:
        few = _count(f"{matching} LIMIT {_COUNTED + 1}", values)
        if few <= _COUNTED:
            return found, few
        return found, max(planned(matching, values).rows, few, offset + len(found))
    return found, _count(matching, values)


def about(user_id: UUID, *, limit: int, before: tuple[datetime, UUID] | None = None) -> list[Entry]:
    """What a user has done and what administrators have done to them, newest first.

    `before`: time and id of the last entry of the page before.
    """
    condition, values = f"{ABOUT} = %s", [str(user_id)]
    if before is None:
        return _read(condition, values, limit=limit)
    return _read(f"{condition} AND (created_at, id) < (%s, %s)", [*values, *before], limit=limit)


def _read(condition: str, values: Sequence[Any], *, limit: int, offset: int = 0) -> list[Entry]:
    found = rows(
        f"SELECT id, payload::text, created_at, ip_address FROM {namespaced('audit_log_entries')} WHERE {condition}"  # noqa: S608  (own name)
        f" ORDER BY created_at DESC, id DESC LIMIT {limit:d} OFFSET %s",
        [*values, offset],
    )
    return [Entry(id=id_, payload_json=payload or "{}", created_at=at, address=ip) for id_, payload, at, ip in found]


def _count(sql: str, values: Sequence[Any]) -> int:
    counted = rows(f"SELECT count(*) FROM ({sql}) matching", values)  # noqa: S608  (own text)
    return int(counted[0][0])
