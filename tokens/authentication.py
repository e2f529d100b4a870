"""The bearer check (RFC 6750): signature and claims first, then the user and the session behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from authsvc.core import clock
from tokens import access_tokens, errors, subjects
from tokens.access_tokens import Claims
from tokens.subjects import SignedIn

_BEARER = re.compile(r"bearer (\S+)", re.IGNORECASE)


class BearerAuthentication(BaseAuthentication):
    """Sets `request.user` to a SignedIn and `request.auth` to the Claims of the token.

    One statement; a signature seen before costs none of its arithmetic again. Raises the errors of a bearer token.
    """

    def authenticate(self, request: Request) -> tuple[SignedIn, Claims]:
        presented = bearer_token(request.META)
        if presented is None:
            raise errors.NoAuthorization
        at = clock.now()
        claims = access_tokens.read(presented, at=at)
        return find(claims, at=at), claims


def bearer_token(meta: Mapping[str, Any]) -> str | None:
    """The token in the Authorization header of a request with these headers (its `META`)."""
    presented = _BEARER.fullmatch(meta.get("HTTP_AUTHORIZATION", ""))
    return presented[1] if presented else None


def user_of(request: Request) -> SignedIn:
    """Who makes a request that IsSignedIn has let through."""
    return cast(SignedIn, request.user)


def claims_of(request: Request) -> Claims:
    return cast(Claims, request.auth)


def find(claims: Claims, *, at: datetime) -> SignedIn:
    """The user and session that the claims name, both asked for every time. Raises the errors of a bearer token."""
    if not claims.sub:
        raise errors.MissingSubject
    user_id = _uuid(claims.sub)
    if user_id is None:
        raise errors.SubjectNotAUuid
    session_id = _uuid(claims.session_id) if claims.session_id else None
    bound = bool(claims.session_id)
    found = subjects.current().signed_in(user_id=user_id, session_id=session_id)
    if found is None:
        raise errors.UserNotFoundForToken
    if bound and session_id is None:
        raise errors.SessionIdNotAUuid
    if bound and found.session is None:
        raise errors.SessionNotFound
    if found.subject.banned_until is not None and at < found.subject.banned_until:
        raise errors.UserBanned
    return found


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
