"""Impersonation of users by operators: the link that an operator creates in the console, and its redemption."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.messages import confirmation_emails, notification_emails
from accounts.users import queries
from accounts.users.records import UserRecord
from accounts.verification import errors
from authsvc import audit, conf, messaging, operator_access
from authsvc.audit import Action, Administrator
from authsvc.caller import Caller
from authsvc.security import redirects
from tokens.sessions import impersonation, lifecycle
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair

LINK_TYPE = impersonation.METHOD


def find_refusal(user: UserRecord, *, at: datetime) -> str:
    """The reason why no operator can impersonate a user; empty if there is none."""
    if not impersonation.is_enabled():
        return "Impersonation is disabled"
    if operator_access.access_of(user.role) is not None:
        return "Operators cannot be impersonated"
    if user.deleted_at is not None:
        return "Deleted users cannot be impersonated"
    if user.is_banned(at):
        return "Banned users cannot be impersonated"
    if user.is_anonymous or user.confirmed_at is None:
        return "Users without a confirmed email address or phone cannot be impersonated"
    if conf.current().mailer.notifies_of_impersonation and not user.verified_email:
        return "This user has no confirmed email address to which the notification can be sent"
    return ""


def create_link(
    user_id: UUID,
    *,
    redirect_to: str,
    is_exchanged: bool,
    operator_session_id: UUID,
    actor: Administrator,
    caller: Caller,
    at: datetime,
) -> str:
    """Create a link that opens the application as the user, once. The operator must open it within two minutes.

    `redirect_to` is a permitted target. The link leads to this service, which redirects there with tokens; with
    `is_exchanged` it leads to the target itself, with the parameters of `POST /verify`.
    Raises UserNotFound or CannotBeImpersonated. The link must not be logged.
    """
    user = queries.require(user_id)
    refusal = "Your own account cannot be impersonated" if user_id == actor.user_id else find_refusal(user, at=at)
    if refusal:
        raise errors.CannotBeImpersonated(refusal)
    with transaction.atomic(durable=True):
        token = impersonation.create_link(user_id, operator_session_id=operator_session_id, reason=actor.reason, at=at)
        audit.record(Action.IMPERSONATION_REQUESTED, actor=actor, caller=caller, at=at, traits=user.audit_traits)
    if is_exchanged:
        return redirects.with_query(redirect_to, {"token_hash": token, "type": LINK_TYPE})
    return confirmation_emails.action_link(
        base=caller.link_base, purpose=LINK_TYPE, token=token, link_type=LINK_TYPE, redirect_to=redirect_to
    )


def redeem_link(token: str, *, caller: Caller, at: datetime) -> tuple[UserRecord, TokenPair]:
    """Start the session of an operator who impersonates a user, and notify the user, in one transaction.

    Raises InvalidEmailVerificationType while impersonation is disabled, as for any unknown type. Raises LinkExpired
    also if the operator has signed out of the console or the user cannot be impersonated any more.
    """
    if not impersonation.is_enabled():
        raise errors.InvalidEmailVerificationType
    with token_transaction(caller):
        link = impersonation.take_link(token, at=at)
        operator = impersonation.find_operator(link.operator_session_id, at=at) if link else None
        user = queries.get(link.user_id) if link else None
        if link is None or operator is None or user is None:
            raise errors.LinkExpired
        actor = impersonation.administrator_of(operator[0], reason=link.reason)
        if user.id == actor.user_id or find_refusal(user, at=at):
            raise errors.LinkExpired
        ends_at = at + impersonation.LIFETIME
        if operator[1].not_after is not None:
            ends_at = min(ends_at, operator[1].not_after)
        tokens = lifecycle.start_session(
            user=user,
            method=impersonation.METHOD,
            caller=caller,
            at=at,
            not_after=ends_at,
            operator_session=operator[1],
        )
        traits = {**user.audit_traits, "aal": operator[1].aal, "ends_at": f"{ends_at:%Y-%m-%dT%H:%M:%SZ}"}
        audit.record(Action.IMPERSONATION_STARTED, actor=actor, caller=caller, at=at, traits=traits)
        if conf.current().mailer.notifies_of_impersonation:
            messaging.send(notification_emails.impersonated(user))
    return user, tokens
