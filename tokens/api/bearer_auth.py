"""The bearer token of a request (RFC 6750), and the user and session that its claims name."""

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
    """The token in the Authorization header of a request with these headers (its `META`)."""
    presented = _BEARER.fullmatch(meta.get("HTTP_AUTHORIZATION", ""))
    return presented[1] if presented else None


def authenticate(token: str, *, at: datetime) -> tuple[SignedInUser, Claims]:
    """Who has this access token, and what it says; neither the user is banned nor has the session ended.

    Raises the errors of a bearer token.
    """
    claims = access_tokens.decode(token, at=at)
    found = load_signed_in_user(claims)
    if found.user.banned_until is not None and at < found.user.banned_until:
        raise errors.UserBanned
    return found, claims


def load_signed_in_user(claims: Claims) -> SignedInUser:
    """The user and session that the claims name, both asked for every time; a ban is not looked at.

    Raises MissingSubject, SubjectNotAUuid, UserNotFoundForToken, SessionIdNotAUuid or SessionNotFound.
    """
    if not claims.sub:
        raise errors.MissingSubject
    user_id = _uuid(claims.sub)
    if user_id is None:
        raise errors.SubjectNotAUuid
    session_id = _uuid(claims.session_id) if claims.session_id else None
    bound = bool(claims.session_id)
    found = users.user_source.get().find_signed_in_user(user_id=user_id, session_id=session_id)
    if found is None:
        raise errors.UserNotFoundForToken
    if bound and session_id is None:
        raise errors.SessionIdNotAUuid
    if bound and found.session is None:
        raise errors.SessionNotFound
    return found


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
