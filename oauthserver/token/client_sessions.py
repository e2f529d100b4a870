"""Starts the session of a client to which a user has granted access, and issues its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc import audit
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from oauthserver import scopes
from oauthserver.errors import InvalidGrant, OwnerBanned
from oauthserver.models import OAuthClient
from oauthserver.token import id_tokens
from tokens.sessions import lifecycle
from tokens.sessions.errors import UserBanned
from tokens.sessions.lifecycle import ClientGrant, TokenPair


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedAccess:
    """Access that a user has granted to a client, and the sign-in of that user."""

    user_id: UUID | None
    scope: str
    resource: str | None
    """The resources that the session may request."""
    requested_resource: str = ""
    """The part of them for which the first access token is; empty for all."""
    nonce: str | None = None
    acr_values: str | None
    aal: str | None
    authenticated_at: datetime | None
    approving_session_id: UUID | None
    browser_session_id: UUID | None = None
    """The approving session if its logout ends the session of the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSession:
    """A new session of a client; `id_token` is empty without the scope `openid`."""

    user: UserRecord
    tokens: TokenPair
    scope: str
    id_token: str = field(default="", repr=False)


def start(
    access: ApprovedAccess, *, grant: str, client: OAuthClient, session_id: UUID, caller: Caller, at: datetime
) -> ClientSession:
    """Start the session `session_id`. Four statements; must run inside a transaction.

    `grant`: `authorization_code` or `device_code`, as in the audit trail and the authentication method. Raises
    InvalidGrant, OwnerBanned.
    """
    user = _find_owner(access, credential=grant.replace("_", " "), caller=caller, at=at)
    caller.audit.next_session_id = caller.audit.session_id = session_id
    traits = {"provider_type": f"oauth_provider_{grant}", "client_id": str(client.id)}
    audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    client_grant = ClientGrant(
        client_id=client.id,
        scopes=access.scope,
        resource=access.resource,
        requested_resource=access.requested_resource,
        approving_session_id=access.browser_session_id,
    )
    method = f"oauth_provider/{grant}"
    try:
        tokens = lifecycle.start_session(user=user, method=method, caller=caller, at=at, client_grant=client_grant)
    except UserBanned:  # since the row was read
        raise OwnerBanned from None
    user = queries.AccountUsers().record_sign_in(user, at=at)
    id_token = ""
    if scopes.OPENID in scopes.parse(access.scope):
        if not scopes.can_issue_id_tokens():
            # The signing key has changed since the request.
            raise UnexpectedFailure("Error generating ID token")
        id_token = id_tokens.issue(
            user,
            client_id=client.id,
            scope=access.scope,
            nonce=access.nonce,
            session_id=session_id if client.receives_sid else None,
            acr=access.aal if access.acr_values else None,
            authenticated_at=access.authenticated_at or at,
            at=at,
        )
    return ClientSession(user=user, tokens=tokens, scope=scopes.normalize(access.scope), id_token=id_token)


def _find_owner(access: ApprovedAccess, *, credential: str, caller: Caller, at: datetime) -> UserRecord:
    """The user who approved the request. One statement. Raises InvalidGrant, OwnerBanned.

    A logout or a new password has ended the session that approved the request, and so the approval ends too.
    """
    if access.user_id is None:
        raise InvalidGrant(f"{credential.capitalize()} has no associated user")
    session_id = access.approving_session_id
    owner = queries.AccountUsers().find_signed_in_user(user_id=access.user_id, session_id=session_id)
    if owner is None or owner.user.deleted_at is not None:
        raise InvalidGrant(f"User not found for {credential}")
    user = queries.get_user_record(owner)
    caller.audit.account = user
    if user.is_banned(at):
        raise OwnerBanned
    if session_id is not None and owner.session is None:
        raise InvalidGrant(f"Invalid {credential}")
    return user
