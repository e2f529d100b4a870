"""Revokes tokens of clients (RFC 7009): the session of the token ends, with all its tokens."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from authsvc import audit
from authsvc.caller import Caller
from oauthserver.errors import UnsupportedTokenType
from oauthserver.models import OAuthClient
from oauthserver.token import presented_tokens
from tokens.models import Session
from tokens.sessions import revocation, users


def revoke(token: str, *, client: OAuthClient, caller: Caller, at: datetime) -> None:
    """End the session of a token if it is one of the client. Tokens of others and unknown ones change nothing.

    Raises UnsupportedTokenType for an access token that the client requested for itself, which has no session.
    At most four statements.
    """
    presented = presented_tokens.read(token, at=at)
    if presented is None:
        return
    if presented.session_id is None:
        if presented.client_id == client.id:
            raise UnsupportedTokenType
        return
    signed_in = users.user_source.find_by_session(presented.session_id)
    if signed_in is None or signed_in.session is None or signed_in.session.oauth_client_id != client.id:
        return
    if not presented.belongs_to(signed_in.session):
        return
    with transaction.atomic(durable=True):
        if not Session.objects.select_for_update().filter(id=presented.session_id).values_list("id").first():
            return
        caller.audit.session_id = presented.session_id
        traits = {"oauth_client_id": str(client.id), "action": "revoke_oauth_token"}
        audit.record(audit.Action.TOKEN_REVOKED, actor=signed_in.user, caller=caller, at=at, traits=traits)
        revocation.revoke_session(presented.session_id, reason="oauth_grant_revoked")
