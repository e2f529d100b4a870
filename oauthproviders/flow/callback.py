"""Back from a provider: the flow is recognised, the provider is asked who it was, and they are signed in."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from social_core.exceptions import SocialAuthBaseException

from accounts.identities import external_sign_in, invitation_acceptance, linking
from accounts.identities.external_identity import ExternalIdentity
from accounts.users import identifiers
from accounts.users.records import UserRecord
from accounts.users.user_source import AccountUsers
from authsvc import conf
from authsvc.caller import Caller
from authsvc.errors import OAuthError
from authsvc.security import redirects
from oauthproviders import errors, queries, registry
from oauthproviders.base import claims, deadline
from oauthproviders.base.contract import Provider, Token
from oauthproviders.flow import flow_cookie
from tokens.api import payloads
from tokens.flows import flow_states
from tokens.models import FlowState
from tokens.sessions import lifecycle, sign_in_metrics

_CLIENT_STATE_LIFE = timedelta(minutes=5)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A flow that is waiting for its answer, with the user to whom an identity is to be linked."""

    flow: FlowState = field(repr=False)
    linking_to: UserRecord | None

    @property
    def target(self) -> str:
        """Where the browser goes from here, whatever comes of it."""
        return conf.current().federation.redirect_url or self.flow.referrer or conf.current().site.url

    @property
    def has_pkce(self) -> bool:
        return self.flow.code_challenge is not None


def recognise(*, state: str, cookies: Mapping[str, str], at: datetime) -> Recognised:
    """The flow of a browser that comes back.

    Raises StateMissing, StateInvalid, StateNotFound, StateExpired, StateAlreadyUsed, LinkingTargetNotFound.
    """
    if not state:
        raise errors.StateMissing
    flow_id = identifiers.uuid(state)
    if flow_id is None:
        raise errors.StateInvalid
    flow = flow_states.find_provider_flow(flow_id)
    if flow is None:
        raise errors.StateNotFound
    if flow_states.is_expired(flow, at):
        raise errors.StateExpired
    if flow.user_id is not None:
        raise errors.StateAlreadyUsed
    # What PKCE proves at the exchange of the code, or what would be done before that, the cookie proves here.
    is_exposed = flow.code_challenge is None or flow.linking_target_id is not None
    if conf.current().federation.flow_binding_enabled and is_exposed and not flow_cookie.is_tied(flow.id, cookies):
        raise errors.StateNotFound
    linking_to = AccountUsers().find_user(flow.linking_target_id) if flow.linking_target_id else None
    if flow.linking_target_id and linking_to is None:
        raise errors.LinkingTargetNotFound
    return Recognised(flow=flow, linking_to=linking_to)


@sign_in_metrics.measure_sign_in("oauth", user_id=lambda _: None)
def complete(recognised: Recognised, *, parameters: Mapping[str, str], caller: Caller, at: datetime) -> str:
    """Finish the flow; the address, with tokens or a code in it, to which the browser goes.

    Raises OAuthError with what the provider said, the errors of this app, and those of signing in, linking and
    accepting an invitation with an identity. Whatever is raised, the flow can be finished until it expires.
    """
    token, identity = _ask(recognised.flow, parameters, at=at)
    if recognised.linking_to is not None:
        return _link(recognised, recognised.linking_to, identity, token, caller=caller, at=at)
    if recognised.flow.invite_token:
        return _accept_invitation(recognised, recognised.flow.invite_token, identity, token, caller=caller, at=at)
    return _sign_in(recognised, identity, token, caller=caller, at=at)


def _sign_in(recognised: Recognised, identity: ExternalIdentity, token: Token, *, caller: Caller, at: datetime) -> str:
    match = external_sign_in.prepare(identity, audience=caller.audience, at=at)
    with transaction.atomic(durable=True):
        signed_in = external_sign_in.sign_in(
            match,
            starts_session=not recognised.has_pkce,
            redirect_to=recognised.target,
            caller=caller,
            at=at,
        )
        if signed_in.refusal is None:
            return _land(recognised, signed_in.user, token, caller=caller, at=at)
    raise signed_in.refusal


def _accept_invitation(
    recognised: Recognised, link_hash: str, identity: ExternalIdentity, token: Token, *, caller: Caller, at: datetime
) -> str:
    invitation = invitation_acceptance.find_for(identity, link_hash=link_hash, at=at)
    with transaction.atomic(durable=True):
        user = invitation_acceptance.accept(
            invitation, identity, starts_session=not recognised.has_pkce, caller=caller, at=at
        )
        return _land(recognised, user, token, caller=caller, at=at)


def _link(
    recognised: Recognised,
    target: UserRecord,
    identity: ExternalIdentity,
    token: Token,
    *,
    caller: Caller,
    at: datetime,
) -> str:
    request = linking.prepare(identity, target)
    with transaction.atomic(durable=True):
        user = linking.lock_user(request, at=at)
        # Logout ends the flow. Where the address is verified, `_land` takes the flow and fails without it.
        if not identity.is_email_verified and not flow_states.lock_pending_flow(recognised.flow.id):
            raise errors.StateNotFound
        linked = linking.link(
            request,
            user,
            starts_session=not recognised.has_pkce,
            redirect_to=recognised.target,
            caller=caller,
            at=at,
        )
        if linked.refusal is None:
            return _land(recognised, linked.user, token, caller=caller, at=at)
    raise linked.refusal


@deadline.shared()
def _ask(flow: FlowState, parameters: Mapping[str, str], *, at: datetime) -> tuple[Token, ExternalIdentity]:
    """Ask the provider who has signed in there. Nothing of the database is held meanwhile."""
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
        token = _exchange(provider, name, code=code, secret=secret)
        identity = _identity(provider, name, token, email_optional=flow.email_optional)
    except errors.Unsupported as error:
        raise errors.ProviderNoLongerUsable(str(error)) from None
    if not identity.addresses and not flow.email_optional:
        raise errors.ProviderEmailMissing
    return token, identity


def _exchange(provider: Provider, name: str, *, code: str, secret: str) -> Token:
    try:
        return provider.exchange(code=code, secret=secret)
    except (errors.Unusable, SocialAuthBaseException) as error:
        _log(name, "exchange", error)
        raise errors.AccessTokenFailed if provider.is_oauth1 else errors.ExchangeFailed(code) from None


def _identity(provider: Provider, name: str, token: Token, *, email_optional: bool) -> ExternalIdentity:
    try:
        profile = provider.profile(token)
        claims.checked(profile.claims)
    except (errors.Unusable, SocialAuthBaseException) as error:
        _log(name, "profile", error)
        raise errors.ProviderEmailMissing if provider.is_oauth1 else errors.ProfileUnavailable from None
    return ExternalIdentity.from_profile(profile, provider=name, email_optional=email_optional)


def _log(name: str, stage: str, error: Exception) -> None:
    # The library's own texts may quote an answer.
    reason = str(error) if isinstance(error, errors.Unusable) else type(error).__name__
    fields = {"event": f"provider.{stage}", "provider": name, "error": reason}
    logger.warning("a provider gave no usable answer", extra=fields)


def _client_secret(flow: FlowState, *, at: datetime) -> str:
    """Our own secret towards the provider, good for one callback; `""` where there is none."""
    if flow.oauth_client_state_id is None:
        return ""
    state = queries.take_client_state(flow.oauth_client_state_id)
    if state is None:
        raise errors.ClientStateNotFound
    if state.provider_type != flow.provider_type:
        raise errors.ClientStateMismatch
    if at > state.created_at + _CLIENT_STATE_LIFE:
        raise errors.ClientStateExpired
    return state.secret


def _land(recognised: Recognised, user: UserRecord, token: Token, *, caller: Caller, at: datetime) -> str:
    """End the flow, in the transaction in which everything else is done: of two callbacks one gets here."""
    flow, target = recognised.flow, recognised.target
    if recognised.has_pkce:
        arrived = flow_states.complete_provider_flow(
            flow.id,
            user_id=user.id,
            provider_token=token.access_token,
            provider_refresh_token=token.refresh_token,
            at=at,
        )
        if not arrived:
            raise errors.StateAlreadyUsed
        return redirects.with_query(target, {"code": flow.auth_code or ""})
    if not flow_states.delete_flow(flow.id):
        raise errors.StateNotFound
    tokens = lifecycle.start_session(user=user, method=flow.authentication_method, caller=caller, at=at)
    told = functools.partial(sign_in_metrics.record_sign_in, "oauth", user_id=user.id, provider=flow.provider_type)
    transaction.on_commit(told)
    upstream = {"provider_token": token.access_token, "provider": flow.provider_type}
    if token.refresh_token:
        upstream["provider_refresh_token"] = token.refresh_token
    return redirects.with_fragment(target, payloads.token_fragment(tokens, **upstream))
