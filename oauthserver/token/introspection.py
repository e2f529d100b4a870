"""Introspects tokens (RFC 7662): for their client, and access tokens also for the API that they are issued for."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from accounts.users import queries
from authsvc.db.sql import fetch_row, namespaced
from authsvc.errors import ApiError
from oauthserver import scopes
from oauthserver.clients.client_metadata import CLIENT_CREDENTIALS
from oauthserver.clients.client_requests import ClientRequest
from oauthserver.models import OAuthClient
from oauthserver.token import presented_tokens
from oauthserver.token.presented_tokens import PresentedToken
from tokens.sessions import refresh
from tokens.sessions.refresh import RefreshingClient
from tokens.sessions.users import SignedInUser

_INACTIVE: dict[str, Any] = {"active": False}


class Introspection:
    """One request. It reads the client that asks and the state of the token with one statement."""

    def __init__(self, *, at: datetime) -> None:
        self._at = at
        self._token: PresentedToken | None = None
        self._signed_in: SignedInUser | None = None
        self._has_issuing_client = False

    def find_client(self, client_id: UUID, request: ClientRequest) -> OAuthClient | None:
        """The client that asks (`authentication.ClientLookup`). One statement."""
        self._token = presented_tokens.read(request.get("token"), at=self._at)
        session_id = self._token.session_id if self._token else None
        issuing_client_id = self._token.client_id if self._token else None
        row = fetch_row(_sql(), (issuing_client_id, CLIENT_CREDENTIALS, session_id, client_id))
        if row is None:
            return None
        width = len(OAuthClient._meta.concrete_fields)
        self._has_issuing_client = row[width]
        self._signed_in = queries.read_signed_in_user(row[width + 1 :])
        return OAuthClient.from_db("default", _client_columns(), row[:width])

    def describe(self, client: OAuthClient) -> dict[str, Any]:
        """The response for the client that `find_client` has found."""
        token = self._token
        if token is None:
            return _INACTIVE
        if token.session_id is None:
            return self._describe_client_token(token, client)
        return self._describe_session_token(token, client)

    def _describe_client_token(self, token: PresentedToken, client: OAuthClient) -> dict[str, Any]:
        is_readable = token.client_id == client.id or _is_for(token, client)
        return _describe_claims(token) if is_readable and self._has_issuing_client else _INACTIVE

    def _describe_session_token(self, token: PresentedToken, client: OAuthClient) -> dict[str, Any]:
        signed_in = self._signed_in
        if signed_in is None or signed_in.session is None or signed_in.session.oauth_client_id is None:
            return _INACTIVE
        session, user, owner_id = signed_in.session, signed_in.user, signed_in.session.oauth_client_id
        is_readable = owner_id == client.id or _is_for(token, client)
        if not (is_readable and self._has_issuing_client and token.belongs_to(session) and token.is_newest(session)):
            return _INACTIVE
        if user.banned_until is not None and self._at < user.banned_until:
            return _INACTIVE
        if token.claims is not None:
            return _describe_claims(token)
        try:
            refresh.check_allowed(signed_in, at=self._at, client=RefreshingClient(id=owner_id))
        except ApiError:
            return _INACTIVE
        return {
            "active": True,
            "scope": scopes.normalize(session.scopes or ""),
            "client_id": str(owner_id),
            "sub": str(user.id),
        }


def _is_for(token: PresentedToken, client: OAuthClient) -> bool:
    """True for an access token that was issued for the API of the client (RFC 8707)."""
    return token.claims is not None and client.resource is not None and client.resource in token.claims.aud


def _describe_claims(token: PresentedToken) -> dict[str, Any]:
    claims = token.claims.raw if token.claims else {}
    present = {name: claims[name] for name in ("client_id", "sub", "aud", "iss", "jti") if name in claims}
    times = {name: int(float(claims[name])) for name in ("exp", "iat") if claims.get(name) is not None}
    scope = scopes.normalize(str(claims.get("scope") or ""))
    return {"active": True, "token_type": "bearer", "scope": scope, **present, **times}


@cache
def _client_columns() -> tuple[str, ...]:
    return tuple(field.attname for field in OAuthClient._meta.concrete_fields)


@cache
def _sql() -> str:
    clients = namespaced("oauth_clients")
    columns = ", ".join(f"c.{field.column}" for field in OAuthClient._meta.concrete_fields)
    return f"""
        SELECT {columns},
            EXISTS (SELECT FROM {clients} i WHERE i.deleted_at IS NULL
                AND (i.id = s.oauth_client_id OR i.id = %s AND %s = ANY (string_to_array(i.grant_types, ',')))),
            {queries.signed_in_columns()}
        FROM {clients} c LEFT JOIN (
            {namespaced("sessions")} s JOIN {namespaced("users")} u ON u.id = s.user_id AND u.deleted_at IS NULL
        ) ON s.id = %s
        WHERE c.id = %s AND c.deleted_at IS NULL
    """  # noqa: S608  (own table names)
