"""Records audit entries: a row in the transaction of the action, and a log line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid4

import orjson

from authsvc import conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows, namespaced

logger = logging.getLogger("authsvc.audit")


class Actor(Protocol):
    """The user who performs an action."""

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
        """`user_metadata.full_name`, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Administrator:
    """An actor identified by role only: service tokens, commands, and operators or administrators with a session."""

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
    FAILED_ATTEMPTS_RESET = "failed_attempts_reset"


_LOG_TYPES = {
    "account": (Action.LOGIN, Action.LOGOUT, Action.INVITE_ACCEPTED),
    "team": (Action.SIGNED_UP, Action.INVITED, Action.DELETED),
    "user": (
        Action.MODIFIED, Action.RECOVERY_REQUESTED, Action.REAUTHENTICATION_REQUESTED, Action.CONFIRMATION_REQUESTED,
        Action.REPEATED_SIGNUP, Action.UPDATED_PASSWORD, Action.IDENTITY_LINKED, Action.IDENTITY_UNLINKED,
        Action.PASSKEY_CREATED, Action.PASSKEY_UPDATED, Action.PASSKEY_DELETED, Action.FAILED_ATTEMPTS_RESET,
    ),
    "token": (Action.TOKEN_REVOKED, Action.TOKEN_REFRESHED),
    "factor": (
        Action.FACTOR_ENROLLED, Action.CHALLENGE_CREATED, Action.FACTOR_VERIFIED, Action.FACTOR_UNENROLLED,
        Action.FACTOR_DELETED, Action.FACTOR_UPDATED, Action.RECOVERY_CODES_CREATED, Action.RECOVERY_CODE_USED,
    ),
}  # fmt: skip
_LOG_TYPE_OF = {action: log_type for log_type, actions in _LOG_TYPES.items() for action in actions}

# Actions that change the ways to sign in. Entries of other actions store an empty address.
_ACTIONS_WITH_ADDRESS = frozenset(
    {
        Action.IDENTITY_LINKED, Action.IDENTITY_UNLINKED, Action.FACTOR_ENROLLED, Action.CHALLENGE_CREATED,
        Action.FACTOR_VERIFIED, Action.FACTOR_UNENROLLED, Action.FACTOR_DELETED, Action.PASSKEY_CREATED,
        Action.PASSKEY_UPDATED, Action.PASSKEY_DELETED, Action.RECOVERY_CODES_CREATED, Action.RECOVERY_CODE_USED,
    }
)  # fmt: skip


# Users choose their names, and each entry and log line contains them.
_MAX_NAME_LENGTH = 256


class PendingEntry(NamedTuple):
    """An entry that is logged but not stored yet; `record` or a statement of the caller stores it."""

    id: UUID
    payload: str | None
    """JSON; None if the settings disable entries in the database."""
    address: str = ""


def record(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> None:
    """Store and log an action of `actor`. One statement; joins the caller's transaction."""
    pending = prepare_entry(action, actor=actor, caller=caller, at=at, traits=traits)
    if pending.payload is not None:
        fetch_rows(
            f"INSERT INTO {namespaced('audit_log_entries')} (id, payload, created_at, ip_address)"  # noqa: S608  (own name)
            " VALUES (%s, %s::jsonb, %s, %s)",
            (pending.id, pending.payload, at, pending.address),
        )


def prepare_entry(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> PendingEntry:
    """Log an action, and return its entry for the caller to store."""
    payload: dict[str, Any] = {
        "actor_id": str(actor.id),
        "actor_via_sso": actor.is_sso_user,
        "actor_username": (actor.phone or actor.email)[:_MAX_NAME_LENGTH],
        "action": action,
        "log_type": _LOG_TYPE_OF[action],
    }
    name = actor.full_name
    if isinstance(name, str):
        payload["actor_name"] = name[:_MAX_NAME_LENGTH]
    elif isinstance(name, int | float):
        payload["actor_name"] = name
    if traits:
        payload["traits"] = dict(traits)
    caller.audit_payloads.append(payload)
    entry_id = uuid4()
    address = caller.address if action in _ACTIONS_WITH_ADDRESS else ""
    if logger.isEnabledFor(logging.INFO):
        event = {
            **payload,
            "audit_log_id": str(entry_id),
            "ip_address": address,
            "created_at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        event |= {k: v for k, v in (("request_id", caller.request_id), ("user_agent", caller.user_agent)) if v}
        logger.info("audit_event", extra={"auth_audit_event": event})
    stored = None if conf.current().audit.disable_postgres else orjson.dumps(payload).decode()
    return PendingEntry(id=entry_id, payload=stored, address=address)
