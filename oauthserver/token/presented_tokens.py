"""Reads the tokens that clients present for revocation and introspection. Their forms differ, so no hint is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson

from authsvc.security import crypto
from oauthserver.token import client_credentials
from tokens.jwt import access_tokens
from tokens.jwt.access_tokens import BadJwt, Claims
from tokens.sessions import errors, legacy_refresh, refresh, refresh_tokens
from tokens.sessions.refresh_tokens import DecodedToken
from tokens.sessions.users import SessionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedToken:
    """A token of a session or, without `session_id`, an access token that a client requested for itself."""

    session_id: UUID | None
    claims: Claims | None = field(default=None, repr=False)
    """Of an access token with a valid signature, which is not expired."""
    refresh_token: DecodedToken | None = None
    """Untrusted until `belongs_to` has verified it."""

    @property
    def client_id(self) -> UUID | None:
        """The client that requested the access token for itself."""
        is_own = self.claims is not None and self.session_id is None
        return UUID(self.claims.sub) if is_own and self.claims is not None else None

    def belongs_to(self, session: SessionRecord) -> bool:
        """True if the token is one of the session, in whatever generation."""
        if self.claims is not None:
            return self.claims.sub == str(session.user_id)
        if self.refresh_token is None:
            return True  # found by its row
        try:
            key = refresh.session_key(session)
        except errors.RefreshTokenNotFound:
            return False
        return key is not None and self.refresh_token.is_signed_with(crypto.base64url_decode(key))

    def is_newest(self, session: SessionRecord) -> bool:
        """True for an access token, and for a refresh token that was not used yet."""
        if self.claims is not None:
            return True
        counter = self.refresh_token.counter if self.refresh_token else None
        return counter == session.refresh_token_counter


def read(token: str, *, at: datetime) -> PresentedToken | None:
    """The token, or None if it is no valid token of a client.

    No statement, except for refresh tokens of an imported database.
    """
    if "." in token:
        return _read_access_token(token, at=at)
    if refresh_tokens.is_legacy(token):
        return _find_legacy(token)
    try:
        decoded = refresh_tokens.decode(token)
    except refresh_tokens.Malformed:
        return None
    return PresentedToken(session_id=decoded.session_id, refresh_token=decoded)


def _read_access_token(token: str, *, at: datetime) -> PresentedToken | None:
    try:
        claims = access_tokens.decode(token, at=at)
        session_id = UUID(claims.session_id) if claims.session_id else None
        if session_id is None:
            # Neither an ID token nor the token of a service.
            header = orjson.loads(crypto.base64url_decode(token.partition(".")[0]))
            if header.get("typ") != client_credentials.TOKEN_TYPE or claims.raw.get("client_id") != claims.sub:
                return None
            UUID(claims.sub)
    except (BadJwt, ValueError):
        return None
    return PresentedToken(session_id=session_id, claims=claims)


def _find_legacy(token: str) -> PresentedToken | None:
    try:
        legacy = legacy_refresh.find(token)
    except (errors.RefreshTokenNotFound, errors.NoValidSession):
        return None
    return None if legacy.revoked else PresentedToken(session_id=legacy.session_id)
