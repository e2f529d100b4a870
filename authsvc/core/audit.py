"""The audit trail: a row in the transaction of what it reports, and a log line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid4

import orjson
from django.conf import settings

from authsvc.core import clock
from authsvc.core.caller import Caller
from authsvc.core.db import namespaced, rows

logger = logging.getLogger("authsvc.audit")


class Actor(Protocol):
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


class Action(StrEnum):
    LOGIN = "login"
    LOGOUT = "logout"
    SIGNED_UP = "user_signedup"
    RECOVERY_REQUESTED = "user_recovery_requested"
    CONFIRMATION_REQUESTED = "user_confirmation_requested"
    REPEATED_SIGNUP = "user_repeated_signup"
    MODIFIED = "user_modified"
    UPDATED_PASSWORD = "user_updated_password"
    REAUTHENTICATION_REQUESTED = "user_reauthenticate_requested"
    TOKEN_REVOKED = "token_revoked"
    TOKEN_REFRESHED = "token_refreshed"


_LOG_TYPES = {
    Action.LOGIN: "account",
    Action.LOGOUT: "account",
    Action.SIGNED_UP: "team",
    Action.RECOVERY_REQUESTED: "user",
    Action.CONFIRMATION_REQUESTED: "user",
    Action.REPEATED_SIGNUP: "user",
    Action.MODIFIED: "user",
    Action.UPDATED_PASSWORD: "user",
    Action.REAUTHENTICATION_REQUESTED: "user",
    Action.TOKEN_REVOKED: "token",
    Action.TOKEN_REFRESHED: "token",
}


class Entry(NamedTuple):
    """What is to be stored of an action, by `record` or by a statement that stores more with it."""

    id: UUID
    payload: str | None
    """JSON; None where the operator keeps no entries in the database."""


def record(
    action: Action, *, actor: Actor, caller: Caller, at: datetime, traits: Mapping[str, Any] | None = None
) -> None:
    """Note an action of `actor`. One statement; joins the caller's transaction."""
    noted = entry(action, actor=actor, caller=caller, at=at, traits=traits)
    if noted.payload is not None:
        rows(
            f"INSERT INTO {namespaced('audit_log_entries')} (id, payload, created_at, ip_address)"  # noqa: S608  (own name)
            " VALUES (%s, %s::jsonb, %s, '')",
            (noted.id, noted.payload, at),
        )


def entry(
    action: Action, *, actor: Actor, caller: Caller, at: datetime, traits: Mapping[str, Any] | None = None
) -> Entry:
    """Write the log line of an action; the entry is left for the caller to store."""
    payload: dict[str, Any] = {
        "actor_id": str(actor.id),
        "actor_via_sso": actor.is_sso_user,
        "actor_username": actor.phone or actor.email,
        "action": action,
        "log_type": _LOG_TYPES[action],
    }
    if actor.full_name is not None:
        payload["actor_name"] = actor.full_name
    if traits:
        payload["traits"] = dict(traits)
    entry_id = uuid4()
    if logger.isEnabledFor(logging.INFO):
        event = {**payload, "audit_log_id": str(entry_id), "ip_address": "", "created_at": clock.text(at)}
        event |= {k: v for k, v in (("request_id", caller.request_id), ("user_agent", caller.user_agent)) if v}
        logger.info("audit_event", extra={"auth_audit_event": event})
    stored = None if settings.AUTH.audit.disable_postgres else orjson.dumps(payload).decode()
    return Entry(id=entry_id, payload=stored)
