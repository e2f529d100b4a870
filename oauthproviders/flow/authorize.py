"""On the way to a provider: what was asked for is checked, remembered, and put into the provider's address."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.db import transaction

from accounts.identities import invitation_acceptance
from authsvc.security import crypto
from oauthproviders import errors, registry
from oauthproviders.base import deadline
from oauthproviders.flow.requests import Wish
from oauthproviders.models import ClientState
from tokens.errors import ChallengeMethodNotKnown
from tokens.flows import flow_states, pkce
from tokens.sessions import lifecycle
from tokens.sessions.users import SignedInUser

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Where the browser is sent, and the flow it belongs to from now on."""

    url: str = field(repr=False)
    flow_id: UUID


@deadline.shared()
def begin(wish: Wish, *, target: str, linking_to: SignedInUser | None, at: datetime) -> Departure:
    """Send somebody to a provider; they come back to `target`, and with `linking_to` to one more identity.

    Raises ProviderNotUsable, InvitedUserNotFound, the errors of PKCE parameters, ChallengeMethodInvalid,
    RequestTokenFailed, and for a linking UserNotFoundForToken and SessionNotFound.
    """
    try:
        provider = registry.find(wish.provider, data={})
        invite_token = crypto.hash_link_token(wish.invite_token) if wish.invite_token else None
        if invite_token is not None and invitation_acceptance.find(invite_token, at=at) is None:
            raise errors.InvitedUserNotFound
        challenge = pkce.parse_challenge(challenge=wish.code_challenge, method=wish.code_challenge_method)
        flow_id = uuid4()
        outset = provider.begin(flow_id=flow_id, scopes=wish.scopes, extra=wish.extra)
    except errors.Unsupported as error:
        raise errors.ProviderNotUsable(str(error)) from None
    except ChallengeMethodNotKnown:
        raise errors.ChallengeMethodInvalid from None
    except errors.Unusable as error:
        fields = {"event": "provider.begin", "provider": wish.provider, "error": str(error)}
        logger.warning("a provider let no sign-in begin", extra=fields)
        raise errors.RequestTokenFailed from None
    with transaction.atomic(durable=True):
        if linking_to is not None:
            lifecycle.lock_signed_in_user(
                linking_to
            )  # the provider was asked meanwhile, and ending a session ends its linkings
        client_state_id = uuid4() if outset.secret else None
        if client_state_id is not None:
            ClientState.objects.create(
                id=client_state_id, provider_type=wish.provider, code_verifier=outset.secret, created_at=at
            )
        flow_states.start_provider_flow(
            flow_id=flow_id,
            provider_type=wish.provider,
            challenge=challenge,
            referrer=target,
            invite_token=invite_token,
            client_state_id=client_state_id,
            linking_target_id=linking_to.user.id if linking_to is not None else None,
            email_optional=provider.config.email_optional,
            at=at,
        )
    return Departure(url=outset.url, flow_id=flow_id)
