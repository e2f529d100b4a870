"""Issues access tokens to clients that act for themselves and not for a user (RFC 6749 §4.4, RFC 9068)."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from oauthserver import resources, scopes
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.errors import InvalidScope, InvalidTarget
from oauthserver.models import OAuthClient
from tokens.jwt import signing_keys
from tokens.sessions.lifecycle import AccessToken

TOKEN_TYPE = "at+jwt"
"""`typ` in the header (RFC 9068 §2.1). It tells these tokens from ID tokens, which have no session either."""


def issue(request: ClientRequest, *, client: OAuthClient, caller: Caller, at: datetime) -> tuple[AccessToken, str]:
    """An access token with the client as its subject, and its scope. One statement. Raises InvalidScope, InvalidTarget.

    No endpoint of this service accepts it: it names no session and no role.
    """
    permitted = scopes.parse(client.scope or "")
    requested = scopes.parse(request.get("scope")) or permitted
    if not set(requested) <= set(permitted):
        raise InvalidScope("the client is not registered for a requested scope")
    requested_resources = resources.parse(request.get("resource"))
    if len(" ".join(requested_resources)) > resources.MAX_LENGTH:
        raise InvalidTarget("resource too long")
    for uri in requested_resources:
        if reason := resources.find_refusal(uri):
            raise InvalidTarget(reason)
    audience = requested_resources or [signing_keys.issuer()]
    scope = " ".join(requested)
    issued_at, lifetime = int(at.timestamp()), int(conf.current().jwt.exp.total_seconds())
    claims = {
        "iss": signing_keys.issuer(),
        "sub": str(client.id),
        "aud": audience if len(audience) > 1 else audience[0],
        "iat": issued_at,
        "exp": issued_at + lifetime,
        "jti": str(uuid4()),
        "client_id": str(client.id),
        "scope": scope,
    }
    token = signing_keys.current().signing.encode(claims, token_type=TOKEN_TYPE)
    actor = audit.Administrator(role="", subject=f"OAuth client {client.id}")
    traits = {"client_id": str(client.id), "client_name": client.client_name or "", "scopes": scope}
    with transaction.atomic(durable=True):
        audit.record(audit.Action.OAUTH_CLIENT_TOKEN_ISSUED, actor=actor, caller=caller, at=at, traits=traits)
    return AccessToken(token=token, expires_in=lifetime, expires_at=issued_at + lifetime), scope
