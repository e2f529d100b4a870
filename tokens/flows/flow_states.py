"""Flows that are finished elsewhere: by a mailed link or at a provider, with PKCE (RFC 7636) by trading a code."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from tokens import errors, queries
from tokens.flows import pkce
from tokens.flows.pkce import Challenge
from tokens.models import FlowState
from tokens.sessions import lifecycle, sign_in_metrics, subjects
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.subjects import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    subject: Subject
    tokens: TokenPair
    provider_token: str = field(repr=False)
    provider_refresh_token: str = field(repr=False)


def begin(*, challenge: Challenge, provider_type: str, method: str, user_id: UUID, at: datetime) -> None:
    """Remember a challenge until the mailed link is opened. One statement; joins the caller's transaction."""
    FlowState.objects.create(
        user_id=user_id,
        auth_code=str(uuid4()),
        code_challenge=challenge.value,
        code_challenge_method=challenge.method,
        provider_type=provider_type,
        authentication_method=method,
        created_at=at,
        updated_at=at,
    )


def depart(
    *,
    flow_id: UUID,
    provider_type: str,
    challenge: Challenge | None,
    referrer: str,
    invite_token: str | None,
    client_state_id: UUID | None,
    linking_target_id: UUID | None,
    email_optional: bool,
    at: datetime,
) -> None:
    """Remember a browser that is sent away to sign in elsewhere. One statement; joins the caller's transaction."""
    FlowState.objects.create(
        id=flow_id,
        auth_code=str(uuid4()) if challenge else None,
        code_challenge=challenge.value if challenge else None,
        code_challenge_method=challenge.method if challenge else None,
        provider_type=provider_type,
        provider_access_token="",
        provider_refresh_token="",
        created_at=at,
        updated_at=at,
        authentication_method="oauth",
        invite_token=invite_token,
        referrer=referrer,
        oauth_client_state_id=client_state_id,
        linking_target_id=linking_target_id,
        email_optional=email_optional,
    )


def departed(flow_id: UUID) -> FlowState | None:
    """The flow of a browser that comes back with this id as its state."""
    return FlowState.objects.filter(id=flow_id, authentication_method="oauth").first()


def arrive(flow_id: UUID, *, user_id: UUID, provider_token: str, provider_refresh_token: str, at: datetime) -> bool:
    """Answer a flow with PKCE: from now on its code can be exchanged. False when another request was first.

    One statement; joins the caller's transaction.
    """
    waiting = FlowState.objects.filter(id=flow_id, user_id=None)
    return bool(
        waiting.update(
            user_id=user_id,
            provider_access_token=provider_token,
            provider_refresh_token=provider_refresh_token,
            auth_code_issued_at=at,
            updated_at=at,
        )
    )


def end(flow_id: UUID) -> bool:
    """End a flow; False when another request was first. One statement; joins the caller's transaction."""
    return queries.take_flow(flow_id=flow_id)


def hand_out_code(*, user_id: UUID, method: str, at: datetime) -> str:
    """The code of the newest flow of this user and method. Raises NoFlowForLink when there is none."""
    with transaction.atomic(savepoint=False):
        code = queries.issue_code(user_id=user_id, method=method, at=at)
    if code is None:
        raise errors.NoFlowForLink
    return code


def abandon(user_id: UUID) -> None:
    """End every flow of a user; codes handed out are good for nothing. Joins the caller's transaction."""
    FlowState.objects.filter(Q(user_id=user_id) | Q(linking_target_id=user_id))._raw_delete("default")


def hold(flow_id: UUID) -> bool:
    """Whether a flow still waits for its answer, which nobody changes until the caller's transaction is over."""
    waiting = FlowState.objects.select_for_update().filter(id=flow_id, user_id=None)
    return waiting.values_list("pk").first() is not None


@sign_in_metrics.watched("pkce", who=lambda done: done.subject.id)
def exchange(*, auth_code: str, verifier: str, caller: Caller, at: datetime) -> Exchanged:
    """Trade a code and its verifier for a session; a code is good for one.

    Raises FlowStateNotFound, FlowStateExpired, BadCodeVerifier, UserBannedAtSignIn. A wrong verifier leaves the code
    usable until it expires.
    """
    flow = FlowState.objects.filter(auth_code=auth_code, user_id__isnull=False).first()
    if flow is None or flow.user_id is None:
        raise errors.FlowStateNotFound
    if is_expired(flow, at):
        raise errors.FlowStateExpired
    subject = subjects.user_source.get().by_id(flow.user_id)
    if subject is None:
        raise UnexpectedFailure
    if not pkce.matches(
        challenge=flow.code_challenge or "", method=flow.code_challenge_method or "", verifier=verifier
    ):
        raise errors.BadCodeVerifier
    if subject.banned_until is not None and at < subject.banned_until:
        raise errors.UserBannedAtSignIn
    with transaction.atomic(durable=True):
        if not queries.take_flow(flow_id=flow.id):
            raise errors.FlowStateNotFound
        traits = {"provider_type": flow.provider_type}
        audit.record(audit.Action.LOGIN, actor=subject, caller=caller, at=at, traits=traits)
        subject = subjects.user_source.get().note_sign_in(subject, at=at)
        tokens = lifecycle.start(
            subject=subject,
            method=flow.authentication_method,
            caller=caller,
            at=at,
            not_after=flow.session_not_after,
        )
    return Exchanged(
        subject=subject,
        tokens=tokens,
        provider_token=flow.provider_access_token or "",
        provider_refresh_token=flow.provider_refresh_token or "",
    )


def is_expired(flow: FlowState, at: datetime) -> bool:
    """Whether a flow has taken longer than EXTERNAL_FLOW_STATE_EXPIRY_DURATION."""
    # A magic link may lie in a mailbox for a day; what may not is the code made when it was opened.
    since = flow.created_at
    if flow.authentication_method == "magiclink" and flow.auth_code_issued_at is not None:
        since = flow.auth_code_issued_at
    return since is None or at > since + conf.current().flows.expiry
