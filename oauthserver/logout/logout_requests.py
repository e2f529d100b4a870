"""Validates logout requests of clients (OpenID Connect RP-Initiated Logout 1.0 §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from authsvc.security import redirects
from oauthserver import id_token_hints
from oauthserver.clients import clients
from oauthserver.clients.redirect_uris import is_registered
from oauthserver.id_token_hints import IdTokenHintInvalid
from oauthserver.models import OAuthClient

MAX_STATE_LENGTH = 4096

LogoutParameters = Callable[[str], str]
"""Name → value, empty without one."""


class LogoutRequestRefused(Exception):
    """The request is invalid, so that its redirect URI must not be used. The text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogoutRequest:
    """A valid request."""

    client: OAuthClient | None = None
    subject: str = ""
    """The user of the ID token; empty without one."""
    post_logout_redirect_uri: str = ""
    """One of the client."""
    state: str = ""

    @property
    def redirect(self) -> str:
        """The URL at which the browser continues after the logout; empty for the page of this service."""
        if not (self.post_logout_redirect_uri and self.state):
            return self.post_logout_redirect_uri
        return redirects.with_query(self.post_logout_redirect_uri, {"state": self.state})


def read(request: HttpRequest) -> LogoutParameters:
    """The parameters of the form or the query."""
    values = request.POST if request.method == "POST" else request.GET

    def parameter(name: str) -> str:
        return values.get(name) or ""

    return parameter


def parse(parameter: LogoutParameters) -> LogoutRequest:
    """The validated request. At most one statement. Raises LogoutRequestRefused."""
    claims = _read_hint(parameter("id_token_hint"))
    client_id = parameter("client_id")
    audience = str(claims.get("client_id") or "")
    if client_id and audience and client_id != audience:
        raise LogoutRequestRefused("client_id is not that of the ID token")
    client = _find_client(client_id or audience)
    target, state = parameter("post_logout_redirect_uri"), parameter("state")
    if target:
        if client is None:
            raise LogoutRequestRefused("post_logout_redirect_uri requires id_token_hint or client_id")
        if not is_registered(target, client.post_logout_redirect_uri_list):
            raise LogoutRequestRefused("invalid post_logout_redirect_uri")
    if len(state) > MAX_STATE_LENGTH:
        raise LogoutRequestRefused("state is too long")
    return LogoutRequest(
        client=client, subject=str(claims.get("sub") or ""), post_logout_redirect_uri=target, state=state
    )


def _find_client(client_id: str) -> OAuthClient | None:
    if not client_id:
        return None
    try:
        client = clients.find_existing(UUID(client_id))
    except ValueError:
        client = None
    if client is None:
        raise LogoutRequestRefused("unknown client")
    return client


def _read_hint(token: str) -> dict[str, Any]:
    """The claims of the ID token; empty without one."""
    try:
        return id_token_hints.read(token) if token else {}
    except IdTokenHintInvalid:
        raise LogoutRequestRefused("id_token_hint is not an ID token of this service") from None
