"""Starts a flow: validates the request, stores the flow and builds the authorization URL of the provider."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from accounts.identities import errors as identity_errors
from accounts.identities import invitation_acceptance
from accounts.passwords import change_proofs
from authsvc.security import crypto
from oauthproviders import registry
from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.flow import errors
from oauthproviders.models import ClientState
from tokens.flows import flow_states, pkce
from tokens.flows.errors import ChallengeMethodNotKnown
from tokens.sessions import aal, locks
from tokens.sessions.users import SignedInUser

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRequest:
    """The parameters with which a client starts a flow."""

    provider: str
    """In lower case."""
    scopes: str
    """As received; the separator depends on the provider."""
    code_challenge: str | None = field(repr=False)
    code_challenge_method: str | None
    invite_token: str = field(repr=False)
    extra: Mapping[str, str] = field(repr=False)
    """Parameters that are forwarded to the provider, as received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationStart:
    """The URL to which the browser is redirected, and the new flow."""

    url: str = field(repr=False)
    flow_id: UUID


@deadline.shared()
def start_flow(
    request: FlowRequest, *, target: str, linking_to: SignedInUser | None, at: datetime
) -> AuthorizationStart:
    """Start a flow that ends at `target`; with `linking_to` it links an identity to this user.

    Raises ProviderNotUsable, InvitedUserNotFound, the errors of PKCE parameters, ChallengeMethodInvalid,
    RequestTokenFailed, and for a linking flow UserNotFoundForToken, SessionNotFound, LinkingNeedsAal2 and
    RecentSignInNeeded.
    """
    if linking_to is not None:
        aal.check_aal(linking_to, error=identity_errors.LinkingNeedsAal2)
        change_proofs.check_new_sign_in_method(linking_to, at=at)
    try:
        provider = registry.find(request.provider, data={})
        invite_token = _find_invitation(request.invite_token, at=at) if request.invite_token else None
        challenge = pkce.parse_challenge(challenge=request.code_challenge, method=request.code_challenge_method)
        state = uuid4()
        authorization = provider.authorization_request(state=state, scopes=request.scopes, extra=request.extra)
    except ProviderUnavailable as error:
        raise errors.ProviderNotUsable(str(error)) from None
    except ChallengeMethodNotKnown:
        raise errors.ChallengeMethodInvalid from None
    except InvalidProviderResponse as error:
        fields = {"event": "provider.begin", "provider": request.provider, "error": str(error)}
        logger.warning("the provider did not issue a request token", extra=fields)
        raise errors.RequestTokenFailed from None
    with transaction.atomic(durable=True):
        if linking_to is not None:
            # The session may have been revoked during the request to the provider.
            locks.lock_for_credential_change(linking_to, error=identity_errors.LinkingNeedsAal2)
        client_state_id = uuid4() if authorization.secret else None
        if client_state_id is not None:
            ClientState.objects.create(
                id=client_state_id, provider_type=request.provider, code_verifier=authorization.secret, created_at=at
            )
        flow_states.start_provider_flow(
            state=state,
            provider_type=request.provider,
            challenge=challenge,
            referrer=target,
            invite_token=invite_token,
            client_state_id=client_state_id,
            linking_to=linking_to,
            email_optional=provider.config.email_optional,
            at=at,
        )
    return AuthorizationStart(url=authorization.url, flow_id=flow_states.flow_id(state))


def _find_invitation(token: str, *, at: datetime) -> str:
    """The stored digest of an invitation's link. Raises InvitedUserNotFound."""
    # A former version has stored the plain digest. Its link is valid until it expires.
    for digest in (crypto.hash_link_token(token), crypto.plain_token_digest(token)):
        if invitation_acceptance.find(digest, at=at) is not None:
            return digest
    raise errors.InvitedUserNotFound
