"""Flows that end with a link from an email or at a provider, and PKCE (RFC 7636) code exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.security import crypto, encryption
from tokens.flows import errors, pkce
from tokens.flows.pkce import Challenge
from tokens.models import FlowState
from tokens.sessions import lifecycle, sign_in_metrics, users
from tokens.sessions.errors import UserBannedAtSignIn
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser, TokenUser

_FORMER_VERSION = 4
_CODE_LENGTH = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExchange:
    user: TokenUser
    tokens: TokenPair
    provider_token: str = field(repr=False)
    provider_refresh_token: str = field(repr=False)


def start_email_flow(*, challenge: Challenge, provider_type: str, method: str, user_id: UUID, at: datetime) -> None:
    """Store a challenge until the link in the email is opened. One statement; joins the caller's transaction."""
    FlowState.objects.create(
        user_id=user_id,
        code_challenge=challenge.value,
        code_challenge_method=challenge.method,
        provider_type=provider_type,
        authentication_method=method,
        created_at=at,
        updated_at=at,
    )


def start_provider_flow(
    *,
    state: UUID,
    provider_type: str,
    challenge: Challenge | None,
    referrer: str,
    invite_token: str | None,
    client_state_id: UUID | None,
    linking_to: SignedInUser | None,
    email_optional: bool,
    at: datetime,
) -> None:
    """Store a flow before the browser is redirected to a provider. One statement; joins the caller's transaction.

    `linking_to` is the user, with the session, for whom the flow links an identity.
    """
    FlowState.objects.create(
        id=flow_id(state),
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
        linking_target_id=linking_to.user.id if linking_to is not None else None,
        linking_session_id=linking_to.session.id if linking_to is not None and linking_to.session is not None else None,
        email_optional=email_optional,
    )


def flow_id(state: UUID) -> UUID:
    """The id of the flow with this `state`: a digest in a UUID of version 8 (RFC 9562 §5.8).

    The row does not reveal the state, with which an attacker could complete the flow (RFC 6749 §10.12).
    """
    digest = crypto.plain_token_digest(str(state))
    return UUID(f"{digest[:12]}8{digest[13:16]}8{digest[17:32]}")


def find_provider_flow(state: UUID) -> FlowState | None:
    """The flow with this `state`, which the provider returns."""
    # In a flow that a former version has started, the state is the id, of version 4.
    ids = [flow_id(state), *([state] if state.version == _FORMER_VERSION else [])]
    return FlowState.objects.filter(id__in=ids, authentication_method="oauth").first()


def complete_provider_flow(
    id: UUID, *, user_id: UUID, provider_token: str, provider_refresh_token: str, at: datetime
) -> str | None:
    """Complete a PKCE flow and return its code. None when another request has completed the flow.

    One statement; joins the caller's transaction.
    """
    code = crypto.generate_auth_code()
    is_completed = FlowState.objects.filter(id=id, user_id=None).update(
        user_id=user_id,
        auth_code=crypto.hash_auth_code(code),
        provider_access_token=_encrypt(provider_token, bound_to=id),
        provider_refresh_token=_encrypt(provider_refresh_token, bound_to=id),
        auth_code_issued_at=at,
        updated_at=at,
    )
    return code if is_completed else None


def delete_flow(flow_id: UUID) -> bool:
    """Delete a flow; False when another request has deleted it. One statement; joins the caller's transaction."""
    return bool(FlowState.objects.filter(id=flow_id)._raw_delete("default"))


def issue_code(*, user_id: UUID, method: str, at: datetime) -> str:
    """Create the code of the newest PKCE flow of this user and method and return it. One statement.

    Joins the caller's transaction. Raises NoFlowForLink when there is no such flow.
    """
    code = crypto.generate_auth_code()
    table = namespaced("flow_state")
    sql = f"""
        UPDATE {table} SET auth_code = %s, auth_code_issued_at = %s, updated_at = %s WHERE id = (
            SELECT id FROM {table} WHERE user_id = %s AND authentication_method = %s AND code_challenge IS NOT NULL
            ORDER BY created_at DESC, id DESC LIMIT 1)
        RETURNING id
    """  # noqa: S608  (own table names)
    with transaction.atomic(savepoint=False):
        flow = fetch_row(sql, (crypto.hash_auth_code(code), at, at, user_id, method))
    if flow is None:
        raise errors.NoFlowForLink
    return code


def delete_user_flows(user_id: UUID) -> None:
    """Delete all flows of a user, which invalidates their codes. Joins the caller's transaction."""
    FlowState.objects.filter(Q(user_id=user_id) | Q(linking_target_id=user_id))._raw_delete("default")


def delete_codes(user_id: UUID) -> None:
    """Delete the flows of a user that have ended with a code. Joins the caller's transaction."""
    FlowState.objects.filter(user_id=user_id, auth_code_issued_at__isnull=False)._raw_delete("default")


def lock_pending_flow(flow_id: UUID) -> bool:
    """Lock a flow until the end of the caller's transaction; False when it is no longer pending."""
    pending = FlowState.objects.select_for_update().filter(id=flow_id, user_id=None)
    return pending.values_list("pk").first() is not None


@sign_in_metrics.measure_sign_in("pkce", user_id=lambda exchange: exchange.user.id)
def exchange_code(*, auth_code: str, verifier: str, caller: Caller, at: datetime) -> CodeExchange:
    """Exchange a code and its verifier for a session. A code is valid for one exchange.

    Raises FlowStateNotFound, FlowStateExpired, BadCodeVerifier, UserBannedAtSignIn. The code stays valid after a
    wrong verifier.
    """
    flow = _find_completed(auth_code, at=at)
    assert flow.user_id is not None  # noqa: S101  (narrowing; a condition of the query)
    user = users.user_source.find_user(flow.user_id)
    caller.audit.account = user
    if user is None:
        raise errors.FlowStateNotFound  # deleted since the link was opened
    _check_verifier(flow, verifier)
    if user.banned_until is not None and at < user.banned_until:
        raise UserBannedAtSignIn
    with token_transaction(caller):
        # The user's row before the flow, as everywhere, so that concurrent requests cannot deadlock.
        user = users.user_source.record_sign_in(user, at=at)
        if not delete_flow(flow.id):
            raise errors.FlowStateNotFound
        tokens = lifecycle.start_session(
            user=user,
            method=flow.authentication_method,
            provider=flow.provider_type if flow.authentication_method == "oauth" else "",
            caller=caller,
            at=at,
            not_after=flow.session_not_after,
        )
        traits = {"provider_type": flow.provider_type}
        audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    return CodeExchange(
        user=user,
        tokens=tokens,
        provider_token=_decrypt(flow.provider_access_token, flow),
        provider_refresh_token=_decrypt(flow.provider_refresh_token, flow),
    )


def complete_linking(*, auth_code: str, verifier: str, user_id: UUID, at: datetime) -> str:
    """End the completed flow that has linked an identity to this user, without a session; return the provider.

    Raises FlowStateNotFound, FlowStateExpired, BadCodeVerifier.
    """
    flow = _find_completed(auth_code, at=at)
    if flow.linking_target_id != user_id:
        raise errors.FlowStateNotFound
    _check_verifier(flow, verifier)
    with transaction.atomic(durable=True):
        if not delete_flow(flow.id):
            raise errors.FlowStateNotFound
    return flow.provider_type


def _find_completed(auth_code: str, *, at: datetime) -> FlowState:
    """The flow with this code. Raises FlowStateNotFound or FlowStateExpired."""
    if "\0" in auth_code:
        raise errors.FlowStateNotFound  # PostgreSQL cannot look it up
    # A former version has stored the code itself. A digest is longer, so it is not taken for a code.
    codes = [crypto.hash_auth_code(auth_code), *([auth_code] if len(auth_code) == _CODE_LENGTH else [])]
    flow = FlowState.objects.filter(
        auth_code__in=codes, auth_code_issued_at__isnull=False, user_id__isnull=False
    ).first()
    if flow is None:
        raise errors.FlowStateNotFound
    if is_expired(flow, at):
        raise errors.FlowStateExpired
    return flow


def _check_verifier(flow: FlowState, verifier: str) -> None:
    """Raises BadCodeVerifier."""
    if not pkce.matches(
        challenge=flow.code_challenge or "", method=flow.code_challenge_method or "", verifier=verifier
    ):
        raise errors.BadCodeVerifier


def _encrypt(token: str, *, bound_to: UUID) -> str:
    return encryption.encrypt(token, bound_to=bound_to, always=True) if token else ""


def _decrypt(stored: str | None, flow: FlowState) -> str:
    """A token of a provider; empty when JWT_SECRET has changed since the flow was completed."""
    try:
        return encryption.decrypt(stored or "", bound_to=flow.id)
    except encryption.DecryptionError:
        return ""


def is_expired(flow: FlowState, at: datetime) -> bool:
    """True if a flow is older than EXTERNAL_FLOW_STATE_EXPIRY_DURATION."""
    # A magic link has a separate lifetime; the flow expires after the link was opened.
    since = flow.created_at
    if flow.authentication_method == "magiclink" and flow.auth_code_issued_at is not None:
        since = flow.auth_code_issued_at
    return since is None or at > since + conf.current().flows.expiry
