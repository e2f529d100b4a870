"""Completes a flow: finds it by its state, fetches the profile from the provider, and signs the user in."""

from __future__ import annotations

import functools
import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from social_core.exceptions import SocialAuthBaseException

from accounts.identities import external_sign_in, invitation_acceptance, linking
from accounts.identities.external_identity import ExternalIdentity, UnusableSubject
from accounts.identities.external_sign_in import AccountMatch
from accounts.users import identifiers
from accounts.users.queries import AccountUsers
from accounts.users.records import UserRecord
from authsvc import conf, messaging
from authsvc.caller import Caller
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import OAuthError
from authsvc.security import crypto, redirects
from oauthproviders import registry
from oauthproviders.base import deadline, profiles
from oauthproviders.base.contract import InvalidProviderResponse, Provider, ProviderToken, ProviderUnavailable
from oauthproviders.flow import errors
from tokens.api import grants
from tokens.flows import flow_states
from tokens.models import FlowState
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.errors import SessionNotFound
from tokens.sessions.issuing import token_transaction
from tokens.sessions.users import SignedInUser

_COOKIE_KEY_LABEL = "oauthproviders.flow-binding"
_CLIENT_STATE_LIFETIME = timedelta(minutes=5)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFlow:
    """A flow that waits for its callback."""

    flow: FlowState = field(repr=False)
    linking_to: SignedInUser | None
    """The user to whom the identity is linked, if any, with the session that started the flow."""

    @property
    def target(self) -> str:
        """The address to which the browser is redirected, also on errors."""
        referrer = self.flow.referrer or ""
        if redirects.is_page(referrer):
            return referrer
        return conf.current().federation.redirect_url or referrer or conf.current().site.url

    @property
    def has_pkce(self) -> bool:
        return self.flow.code_challenge is not None


def find_flow(*, state: str, cookies: Mapping[str, str], at: datetime) -> PendingFlow:
    """The pending flow of a callback.

    Raises StateMissing, StateInvalid, StateNotFound, StateExpired, StateAlreadyUsed, LinkingTargetNotFound.
    """
    if not state:
        raise errors.StateMissing
    state_id = identifiers.uuid(state)
    if state_id is None:
        raise errors.StateInvalid
    flow = flow_states.find_provider_flow(state_id)
    if flow is None:
        raise errors.StateNotFound
    if flow_states.is_expired(flow, at):
        raise errors.StateExpired
    if flow.user_id is not None:
        raise errors.StateAlreadyUsed
    # PKCE binds the code to the client. Without PKCE, and for linking, the cookie binds the flow to the browser.
    needs_cookie = flow.code_challenge is None or flow.linking_target_id is not None
    is_checked = conf.current().federation.flow_binding_enabled and needs_cookie
    if is_checked and not _has_flow_cookie(flow.id, cookies):
        raise errors.StateNotFound
    return PendingFlow(flow=flow, linking_to=_find_linking_user(flow))


def _find_linking_user(flow: FlowState) -> SignedInUser | None:
    """The user to whom the flow links an identity, with the session that started it; None for other flows."""
    if flow.linking_target_id is None:
        return None
    linking_to = AccountUsers().find_signed_in_user(user_id=flow.linking_target_id, session_id=flow.linking_session_id)
    if linking_to is None or linking_to.user.deleted_at is not None:
        raise errors.LinkingTargetNotFound
    if flow.linking_session_id is not None and linking_to.session is None:
        raise errors.StateNotFound
    return linking_to


@sign_in_metrics.measure_sign_in("oauth", user_id=lambda _: None)
def complete_flow(pending: PendingFlow, *, parameters: Mapping[str, str], caller: Caller, at: datetime) -> str:
    """Complete a flow and return the redirect URL, which contains tokens or a code.

    Raises OAuthError with the provider's error, the errors of this package, and those of signing in, linking and
    accepting an invitation. After an error the flow can be completed until it expires.
    """
    token, identity = _fetch_identity(pending.flow, parameters, at=at)
    if pending.linking_to is not None:
        return _link(pending, pending.linking_to, identity, token, caller=caller, at=at)
    if pending.flow.invite_token:
        return _accept_invitation(pending, pending.flow.invite_token, identity, token, caller=caller, at=at)
    return _sign_in(pending, identity, token, caller=caller, at=at)


@deadline.shared()
def _fetch_identity(
    flow: FlowState, parameters: Mapping[str, str], *, at: datetime
) -> tuple[ProviderToken, ExternalIdentity]:
    """Exchange the code and fetch the profile. Runs outside of any transaction."""
    name, code = flow.provider_type, parameters.get("code", "")
    if not registry.is_oauth1(name):
        if error := parameters.get("error"):
            raise OAuthError(error, parameters.get("error_description", ""))
        if not code:
            raise errors.CodeMissing
    try:
        provider = registry.find(name, data=parameters)
        secret = _client_secret(flow, at=at)
        if provider.requires_pkce and not secret:
            raise errors.VerifierMissing
        token = _exchange_code(provider, name, code=code, secret=secret)
        identity = _fetch_profile(provider, name, token, email_optional=flow.email_optional)
    except ProviderUnavailable as error:
        raise errors.ProviderNoLongerUsable(str(error)) from None
    if not identity.addresses and not flow.email_optional:
        raise errors.ProviderEmailMissing
    return token, identity


def _client_secret(flow: FlowState, *, at: datetime) -> str:
    """The secret that this service keeps for the provider, valid for one callback; `""` when there is none."""
    if flow.oauth_client_state_id is None:
        return ""
    sql = f"""
        DELETE FROM {namespaced("oauth_client_states")} WHERE id = %s
        RETURNING provider_type, code_verifier, created_at
    """  # noqa: S608  (own table name)
    state = fetch_row(sql, (flow.oauth_client_state_id,))
    if state is None:
        raise errors.ClientStateNotFound
    provider_type, code_verifier, created_at = state
    if provider_type != flow.provider_type:
        raise errors.ClientStateMismatch
    if at > created_at + _CLIENT_STATE_LIFETIME:
        raise errors.ClientStateExpired
    return code_verifier or ""


def _exchange_code(provider: Provider, name: str, *, code: str, secret: str) -> ProviderToken:
    try:
        return provider.exchange(code=code, secret=secret)
    except (InvalidProviderResponse, SocialAuthBaseException) as error:
        _log_failure(name, "exchange", error)
        raise errors.AccessTokenFailed if provider.is_oauth1 else errors.ExchangeFailed(code) from None


def _fetch_profile(provider: Provider, name: str, token: ProviderToken, *, email_optional: bool) -> ExternalIdentity:
    try:
        profile = provider.profile(token)
        profiles.check_storable(profile.claims)
        return ExternalIdentity.from_profile(profile, provider=name, email_optional=email_optional)
    except (InvalidProviderResponse, UnusableSubject, SocialAuthBaseException) as error:
        _log_failure(name, "profile", error)
        raise errors.ProviderEmailMissing if provider.is_oauth1 else errors.ProfileUnavailable from None


def _log_failure(name: str, stage: str, error: Exception) -> None:
    # The texts of social-auth-core may quote a response.
    is_own = isinstance(error, InvalidProviderResponse | UnusableSubject)
    reason = str(error) if is_own else type(error).__name__
    fields = {"event": f"provider.{stage}", "provider": name, "error": reason}
    logger.warning("the provider sent no usable response", extra=fields)


def _sign_in(
    pending: PendingFlow, identity: ExternalIdentity, token: ProviderToken, *, caller: Caller, at: datetime
) -> str:
    def store(match: AccountMatch) -> str:
        return _store_sign_in(pending, match, token, caller=caller, at=at)

    return external_sign_in.attempt(identity, store, caller=caller, at=at)


def _store_sign_in(
    pending: PendingFlow, match: AccountMatch, token: ProviderToken, *, caller: Caller, at: datetime
) -> str:
    """Sign in with the identity and end the flow, in one transaction; returns the redirect URL."""
    with (
        messaging.reserved("email" if match.confirmation_recipient else None),
        token_transaction(caller, issues_token=match.error is None and not pending.has_pkce),
    ):
        if not pending.has_pkce and match.error is None:
            lifecycle.announce_session(caller)
        signed_in = external_sign_in.sign_in(
            match,
            starts_session=not pending.has_pkce,
            redirect_to=pending.target,
            caller=caller,
            at=at,
        )
        if signed_in.error is None:
            return _finish(pending, signed_in.user, token, caller=caller, at=at)
    raise signed_in.error


def _accept_invitation(
    pending: PendingFlow,
    link_hash: str,
    identity: ExternalIdentity,
    token: ProviderToken,
    *,
    caller: Caller,
    at: datetime,
) -> str:
    invitation = invitation_acceptance.find_for(identity, link_hash=link_hash, at=at)
    with token_transaction(caller, issues_token=not pending.has_pkce):
        if not pending.has_pkce:
            lifecycle.announce_session(caller)
        user = invitation_acceptance.accept(
            invitation, identity, starts_session=not pending.has_pkce, caller=caller, at=at
        )
        return _finish(pending, user, token, caller=caller, at=at)


def _link(
    pending: PendingFlow,
    target: SignedInUser,
    identity: ExternalIdentity,
    token: ProviderToken,
    *,
    caller: Caller,
    at: datetime,
) -> str:
    """Link the identity to the user and end the flow, in one transaction; returns the redirect URL."""
    request = linking.prepare(identity, target, caller=caller, at=at)
    with (
        messaging.reserved(None if request.is_verified else "email"),
        token_transaction(caller, issues_token=request.error is None and not pending.has_pkce),
    ):
        try:
            user = linking.lock_user(target, at=at)
        except SessionNotFound:
            raise errors.StateNotFound from None  # a flow ends with its session
        # Logout deletes the flow. For a verified address `_finish` deletes the flow and fails without it.
        if not identity.is_email_verified and not flow_states.lock_pending_flow(pending.flow.id):
            raise errors.StateNotFound
        if not pending.has_pkce and request.error is None:
            lifecycle.announce_session(caller)
        linked = linking.link(
            request,
            user,
            starts_session=not pending.has_pkce,
            redirect_to=pending.target,
            caller=caller,
            at=at,
        )
        if linked.error is None:
            return _finish(pending, linked.user, token, caller=caller, at=at)
    raise linked.error


def _finish(pending: PendingFlow, user: UserRecord, token: ProviderToken, *, caller: Caller, at: datetime) -> str:
    """End the flow and return the redirect URL. Runs in the transaction of the sign-in.

    Raises StateAlreadyUsed or StateNotFound when a concurrent callback has ended the flow.
    """
    flow = pending.flow
    if pending.has_pkce:
        code = flow_states.complete_provider_flow(
            flow.id,
            user_id=user.id,
            provider_token=token.access_token,
            provider_refresh_token=token.refresh_token,
            at=at,
        )
        if code is None:
            raise errors.StateAlreadyUsed
        return redirects.with_query(pending.target, {"code": code})
    if not flow_states.delete_flow(flow.id):
        raise errors.StateNotFound
    tokens = lifecycle.start_session(
        user=user, method=flow.authentication_method, provider=flow.provider_type, caller=caller, at=at
    )
    transaction.on_commit(
        functools.partial(sign_in_metrics.record_sign_in, "oauth", user_id=user.id, provider=flow.provider_type)
    )
    provider_tokens = {"provider_token": token.access_token, "provider": flow.provider_type}
    if token.refresh_token:
        provider_tokens["provider_refresh_token"] = token.refresh_token
    return redirects.with_fragment(pending.target, grants.token_fragment(tokens, **provider_tokens))


def set_flow_cookie(response: HttpResponse, *, flow_id: UUID) -> None:
    """Set the cookie that binds a flow to the browser in which it was started, if binding is enabled."""
    if not conf.current().federation.flow_binding_enabled:
        return
    address = urlsplit(conf.current().api.external_url)
    is_secure = address.scheme == "https"
    response.set_cookie(
        _cookie_name(flow_id),
        _cookie_value(flow_id),
        max_age=conf.current().flows.expiry,
        path=f"{address.path.rstrip('/')}/callback",
        httponly=True,
        secure=is_secure,
        # Apple returns to the callback with a cross-site POST.
        samesite="None" if is_secure else "Lax",
    )


def _has_flow_cookie(flow_id: UUID, cookies: Mapping[str, str]) -> bool:
    """True if the request has the cookie of this flow."""
    return crypto.constant_time_equal(cookies.get(_cookie_name(flow_id), ""), _cookie_value(flow_id))


def _cookie_name(flow_id: UUID) -> str:
    return f"flow-{flow_id}"


def _cookie_value(flow_id: UUID) -> str:
    digest = hmac.digest(crypto.derive_key(_COOKIE_KEY_LABEL), flow_id.bytes, hashlib.sha256)
    return crypto.base64url_encode(digest)
