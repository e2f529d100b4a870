"""Records audit entries: a row in the transaction of the action, and a log line."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import orjson

from authsvc import conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.security import rate_limits

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
    """An operator or administrator: a user, a program with a service token, or a command."""

    role: str
    user_id: UUID | None = None
    """None for a service token and for commands."""
    address: str = ""
    """Email address or phone of the user."""
    subject: str = ""
    """`sub` of a service token without a session; the system user of a command."""
    reason: str = ""
    """The reason that the operator states for the action."""

    @property
    def id(self) -> UUID:
        return self.user_id or UUID(int=0)

    @property
    def email(self) -> str:
        return self.address or self.role

    @property
    def phone(self) -> str:
        return ""

    @property
    def is_sso_user(self) -> bool:
        return False

    @property
    def full_name(self) -> object:
        return None


class _UnknownActor(NamedTuple):
    """The actor of a refused sign-in to no known account."""

    id: UUID
    email: str = ""
    phone: str = ""
    is_sso_user: bool = False
    full_name: object = None


class Action(StrEnum):
    LOGIN = "login"
    LOGOUT = "logout"
    SIGN_IN_REFUSED = "sign_in_refused"
    INVITE_ACCEPTED = "invite_accepted"
    SIGNED_UP = "user_signedup"
    INVITED = "user_invited"
    DELETED = "user_deleted"
    MODIFIED = "user_modified"
    CHANGE_REFUSED = "user_change_refused"
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
    CUSTOM_PROVIDER_CREATED = "custom_provider_created"
    CUSTOM_PROVIDER_UPDATED = "custom_provider_updated"
    CUSTOM_PROVIDER_DELETED = "custom_provider_deleted"
    PROVIDER_TESTED = "provider_tested"
    MESSAGE_RETRIED = "message_retried"
    MESSAGES_RETRIED = "messages_retried"
    FAILED_ATTEMPTS_RESET = "failed_attempts_reset"
    PERSONAL_DATA_VIEWED = "personal_data_viewed"
    PERSONAL_DATA_EXPORTED = "personal_data_exported"
    NOTE_ADDED = "operator_note_added"
    OAUTH_CLIENT_CREATED = "oauth_client_created"
    OAUTH_CLIENT_UPDATED = "oauth_client_updated"
    OAUTH_CLIENT_DELETED = "oauth_client_deleted"
    OAUTH_CLIENT_SECRET_REGENERATED = "oauth_client_secret_regenerated"
    OAUTH_CLIENT_TOKEN_ISSUED = "oauth_client_token_issued"
    OAUTH_GRANT_APPROVED = "oauth_grant_approved"
    OAUTH_GRANT_DENIED = "oauth_grant_denied"
    LIST_EXPORTED = "list_exported"
    WEBHOOK_ENDPOINT_CREATED = "webhook_endpoint_created"
    WEBHOOK_ENDPOINT_UPDATED = "webhook_endpoint_updated"
    WEBHOOK_ENDPOINT_DELETED = "webhook_endpoint_deleted"
    WEBHOOK_ENDPOINT_SECRET_ROTATED = "webhook_endpoint_secret_rotated"
    WEBHOOK_REPLAYED = "webhook_replayed"
    WEBHOOK_EVENT_VIEWED = "webhook_event_viewed"
    IMPERSONATION_REQUESTED = "impersonation_requested"
    IMPERSONATION_STARTED = "impersonation_started"
    IMPERSONATION_ENDED = "impersonation_ended"


_LOG_TYPES = {
    "account": (
        Action.LOGIN, Action.LOGOUT, Action.SIGN_IN_REFUSED, Action.INVITE_ACCEPTED, Action.IMPERSONATION_REQUESTED,
        Action.IMPERSONATION_STARTED, Action.IMPERSONATION_ENDED,
    ),
    "team": (Action.SIGNED_UP, Action.INVITED, Action.DELETED),
    "user": (
        Action.MODIFIED, Action.CHANGE_REFUSED, Action.RECOVERY_REQUESTED, Action.REAUTHENTICATION_REQUESTED,
        Action.CONFIRMATION_REQUESTED, Action.REPEATED_SIGNUP, Action.UPDATED_PASSWORD, Action.IDENTITY_LINKED,
        Action.IDENTITY_UNLINKED, Action.PASSKEY_CREATED, Action.PASSKEY_UPDATED, Action.PASSKEY_DELETED,
        Action.FAILED_ATTEMPTS_RESET, Action.NOTE_ADDED, Action.PERSONAL_DATA_VIEWED, Action.LIST_EXPORTED,
        Action.PERSONAL_DATA_EXPORTED,
        Action.OAUTH_GRANT_APPROVED, Action.OAUTH_GRANT_DENIED,
    ),
    "token": (Action.TOKEN_REVOKED, Action.TOKEN_REFRESHED),
    "factor": (
        Action.FACTOR_ENROLLED, Action.CHALLENGE_CREATED, Action.FACTOR_VERIFIED, Action.FACTOR_UNENROLLED,
        Action.FACTOR_DELETED, Action.FACTOR_UPDATED, Action.RECOVERY_CODES_CREATED, Action.RECOVERY_CODE_USED,
    ),
    "custom_provider": (
        Action.CUSTOM_PROVIDER_CREATED, Action.CUSTOM_PROVIDER_UPDATED, Action.CUSTOM_PROVIDER_DELETED,
        Action.PROVIDER_TESTED,
    ),
    "message": (Action.MESSAGE_RETRIED, Action.MESSAGES_RETRIED),
    "oauth_client": (
        Action.OAUTH_CLIENT_CREATED, Action.OAUTH_CLIENT_UPDATED, Action.OAUTH_CLIENT_DELETED,
        Action.OAUTH_CLIENT_SECRET_REGENERATED, Action.OAUTH_CLIENT_TOKEN_ISSUED,
    ),
    "webhook": (
        Action.WEBHOOK_ENDPOINT_CREATED, Action.WEBHOOK_ENDPOINT_UPDATED, Action.WEBHOOK_ENDPOINT_DELETED,
        Action.WEBHOOK_ENDPOINT_SECRET_ROTATED, Action.WEBHOOK_REPLAYED, Action.WEBHOOK_EVENT_VIEWED,
    ),
}  # fmt: skip
_LOG_TYPE_OF = {action: log_type for log_type, actions in _LOG_TYPES.items() for action in actions}
REFUSALS = "RefusedSignIn"
"""The bucket that limits entries of refusals."""
MAX_REFUSALS_PER_CLIENT = 20
"""Entries of refusals at once for each client address (or /64), and as many more in each hour."""
MAX_REFUSALS = 2_000
"""The same for the installation."""
_MAX_VALUE_LENGTH = 256
"""Characters of a value in `describe_changes`."""


# Users choose their names, and clients the ids of requests; each entry and log line contains them.
_MAX_NAME_LENGTH = 256


class PendingEntry(NamedTuple):
    """An entry that is not stored yet; `record` or a statement of the caller stores it."""

    id: UUID
    payload: str | None
    """JSON; None if the settings disable entries in the database."""
    address: str = ""
    content: Mapping[str, Any] = MappingProxyType({})
    """The payload before it is encoded."""


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


def record_refused_sign_in(*, method: str, error_code: str, caller: Caller, at: datetime) -> None:
    """Store and log a refused sign-in to the account of `caller.audit`, with the kind of failure and no secret.

    Entries are limited per client and for the installation, so that an attacker cannot fill the table; those beyond
    the limits are left out. At most four statements; call it outside a transaction.
    """
    if not _is_within_limits(caller.client or caller.address or "unknown"):
        return
    if caller.audit.next_session_id is not None:
        caller.audit.next_session_id = caller.audit.session_id = None  # it was not started
    actor = caller.audit.account or _UnknownActor(UUID(int=0))
    traits = {"method": method, "error_code": error_code}
    record(Action.SIGN_IN_REFUSED, actor=actor, caller=caller, at=at, traits=traits)
    caller.audit.payloads.pop()  # the access log names only authenticated users


def record_refusal(
    action: Action,
    *,
    actor: Actor,
    error_code: str,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> None:
    """Store and log that a request of a known user was refused, within the limits of `record_refused_sign_in`.

    At most four statements; call it outside a transaction.
    """
    if _is_within_limits(caller.client or caller.address or "unknown"):
        record(action, actor=actor, caller=caller, at=at, traits={"error_code": error_code, **(traits or {})})


def _is_within_limits(client: str) -> bool:
    per_hour = timedelta(hours=1)
    for key, limit in ((client, MAX_REFUSALS_PER_CLIENT), ("", MAX_REFUSALS)):
        rate = limit / per_hour.total_seconds()
        if rate_limits.consume(bucket=REFUSALS, key=key, burst=limit, per_second=rate, life=per_hour) is not None:
            return False
    return True


def prepare_entry(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> PendingEntry:
    """Log an action, and return its entry for the caller to store."""
    pending = draft_entry(action, actor=actor, caller=caller, at=at, traits=traits)
    log_entry(pending, caller=caller, at=at)
    return pending


def draft_entry(
    action: Action,
    *,
    actor: Actor | Administrator,
    caller: Caller,
    at: datetime,
    traits: Mapping[str, Any] | None = None,
) -> PendingEntry:
    """The entry of an action, for a statement that stores it only if the action takes place.

    The caller then calls `log_entry`.
    """
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
    if isinstance(actor, Administrator):
        payload["actor_role"] = actor.role
        if actor.subject:
            payload["actor_sub"] = actor.subject
        if actor.reason:
            payload["reason"] = actor.reason
    impersonator = caller.audit.impersonator
    if impersonator is not None and impersonator.id != actor.id:
        payload["impersonator_id"] = str(impersonator.id)
        payload["impersonator_username"] = impersonator.email[:_MAX_NAME_LENGTH]
    if traits:
        payload["traits"] = dict(traits)
    if caller.request_id:
        payload["request_id"] = caller.request_id[:_MAX_NAME_LENGTH]
    if caller.audit.session_id is not None:
        payload["session_id"] = str(caller.audit.session_id)
    entry_id = _new_id(at)
    config = conf.current().audit
    is_refresh = action == Action.TOKEN_REFRESHED
    if config.disable_postgres or (is_refresh and not config.refreshes_stored):
        return PendingEntry(id=entry_id, payload=None, address=caller.address, content=payload)
    # Refreshes are too frequent to store the device with each; the entry of the sign-in names it.
    has_device = not isinstance(actor, Administrator) and not is_refresh
    device = caller.user_agent[:_MAX_NAME_LENGTH].replace("\0", "") if has_device else ""
    stored = {**payload, "user_agent": device} if device else payload
    return PendingEntry(id=entry_id, payload=orjson.dumps(stored).decode(), address=caller.address, content=payload)


def _new_id(at: datetime) -> UUID:
    """A UUID of version 7 (RFC 9562, section 5.7).

    Ids in the order of time extend the last page of the primary key; random ones would change a page each, which
    PostgreSQL writes whole to the WAL after a checkpoint.
    """
    milliseconds = int(at.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62))


def log_entry(pending: PendingEntry, *, caller: Caller, at: datetime) -> None:
    """Log the action of an entry that is stored."""
    caller.audit.payloads.append(pending.content)
    if logger.isEnabledFor(logging.INFO):
        event = {
            **pending.content,
            "audit_log_id": str(pending.id),
            "ip_address": caller.address,
            "created_at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        if caller.user_agent:
            event["user_agent"] = caller.user_agent
        logger.info("audit_event", extra={"auth_audit_event": event})


def describe_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, secret: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Name → old and new value of each value that differs; None stands for an absent value.

    Values under the names in `secret` are hidden, and long ones are shortened.
    """
    return {
        name: {
            "old": _show(before.get(name), is_secret=name in secret),
            "new": _show(after.get(name), is_secret=name in secret),
        }
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    }


def _show(value: Any, *, is_secret: bool) -> Any:
    if value is None or value == "":
        return None
    if is_secret:
        return "[hidden]"
    text = orjson.dumps(value).decode()
    return value if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
