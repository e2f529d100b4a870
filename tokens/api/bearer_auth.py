"""Bearer token authentication (RFC 6750): the token of a request, and its user and session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from tokens import errors
from tokens.jwt import access_tokens
from tokens.jwt.access_tokens import Claims
from tokens.sessions import users
from tokens.sessions.users import SignedInUser

_BEARER = re.compile(r"bearer (\S+)", re.IGNORECASE)


def bearer_token(meta: Mapping[str, Any]) -> str | None:
    """The token in the Authorization header; `meta` is the `META` of a request."""
    match = _BEARER.fullmatch(meta.get("HTTP_AUTHORIZATION", ""))
    return match[1] if match else None


def authenticate(token: str, *, at: datetime) -> tuple[SignedInUser, Claims]:
    """Verifies an access token, its user and its session. Raises the errors of a bearer token."""
    claims = access_tokens.decode(token, at=at)
    signed_in = load_signed_in_user(claims)
    if signed_in.user.banned_until is not None and at < signed_in.user.banned_until:
        raise errors.UserBanned
    return signed_in, claims


def load_signed_in_user(claims: Claims) -> SignedInUser:
    """Reads the user and session of the claims, without checking for a ban. One statement.

    Raises MissingSubject, SubjectNotAUuid, UserNotFoundForToken, SessionIdNotAUuid or SessionNotFound.
    """
    if not claims.sub:
        raise errors.MissingSubject
    user_id = _uuid(claims.sub)
    if user_id is None:
        raise errors.SubjectNotAUuid
    session_id = _uuid(claims.session_id) if claims.session_id else None
    has_session = bool(claims.session_id)
    signed_in = users.user_source.find_signed_in_user(user_id=user_id, session_id=session_id)
    if signed_in is None:
        raise errors.UserNotFoundForToken
    if has_session and session_id is None:
        raise errors.SessionIdNotAUuid
    if has_session and signed_in.session is None:
        raise errors.SessionNotFound
    return signed_in


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
