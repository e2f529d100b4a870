"""Pushed authorization requests (RFC 9126): the client sends the request itself, and the browser only its reference."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from functools import cache
from uuid import UUID

from authsvc import conf
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import ValidationFailed
from authsvc.security import crypto
from oauthserver.authorization import authorization_requests
from oauthserver.authorization.authorization_requests import Parameters, RequestRefused, RequestTarget, StartedRequest
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.clients.redirect_uris import is_registered
from oauthserver.errors import PushedRequestRefused, UnknownClient
from oauthserver.models import OAuthClient

LIFETIME = timedelta(seconds=90)
"""From the push of a request to its use."""
_PREFIX = "urn:ietf:params:oauth:request_uri:"


def push(request: ClientRequest, *, client: OAuthClient, at: datetime) -> str:
    """Validate and store a request, and return its `request_uri`. One statement.

    Raises ValidationFailed for the redirect URI, and PushedRequestRefused.
    """
    if request.get("client_id") not in ("", str(client.id)):
        raise PushedRequestRefused("invalid_request", "client_id is not that of the authenticated client")
    target = authorization_requests.check_redirect_uri(client, request.get)
    request_uri = _PREFIX + crypto.generate_key()
    try:
        authorization = authorization_requests.validate(target, request.get, at=at)
        authorization.request_uri, authorization.expires_at = _digest(request_uri), at + LIFETIME
        authorization_requests.store(authorization)
    except RequestRefused as error:
        # A request that cannot be stored is one of the client's mistakes here, as no browser waits.
        name = "invalid_request" if error.error == "server_error" else error.error
        raise PushedRequestRefused(name, error.description) from None
    return request_uri


def is_pushed(parameter: Parameters) -> bool:
    return parameter("request_uri").startswith(_PREFIX)


def take(parameter: Parameters, *, at: datetime) -> tuple[RequestTarget, StartedRequest]:
    """The pushed request of the client, which can be taken once. One statement.

    Other parameters are ignored (RFC 9126 §4). Raises ValidationFailed, UnknownClient.
    """
    client_id = parameter("client_id")
    if not client_id:
        raise ValidationFailed("client_id is required")
    try:
        parsed_id = UUID(client_id)
    except ValueError:
        raise UnknownClient("invalid client_id format") from None
    expires_at = at + conf.current().oauth_server.authorization_ttl
    row = fetch_row(
        _take_sql(),
        {"request_uri": _digest(parameter("request_uri")), "client_id": parsed_id, "at": at, "expires_at": expires_at},
    )
    if row is None:
        raise ValidationFailed("invalid request_uri")
    authorization_id, prompt, redirect_uri, state, registered = row
    if not is_registered(redirect_uri, registered.split(",")):
        raise ValidationFailed("invalid redirect_uri")
    target = RequestTarget(client_id=parsed_id, redirect_uri=redirect_uri, state=state or "")
    return target, StartedRequest(authorization_id=authorization_id, prompt=prompt or "")


def _digest(request_uri: str) -> str:
    return hashlib.sha256(request_uri.encode(errors="surrogatepass")).hexdigest()


@cache
def _take_sql() -> str:
    # The request begins now: the time that the user has, and the age of the sign-in, count from here.
    return f"""
        UPDATE {namespaced("oauth_authorizations")} a
        SET request_uri = NULL, created_at = %(at)s, expires_at = %(expires_at)s
        FROM {namespaced("oauth_clients")} c
        WHERE a.request_uri = %(request_uri)s AND a.client_id = %(client_id)s AND a.expires_at > %(at)s
            AND c.id = a.client_id AND c.deleted_at IS NULL
        RETURNING a.authorization_id, a.prompt, a.redirect_uri, a.state, c.redirect_uris
    """  # noqa: S608  (own table names)
