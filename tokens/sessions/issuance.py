"""Issues the access token of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from authsvc import conf
from tokens.jwt import signing_keys
from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions import aal
from tokens.sessions.users import SessionRecord, TokenUser


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A new access token; `expires_in` in seconds, `expires_at` in Unix seconds."""

    token: str = field(repr=False)
    expires_in: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPair:
    """The tokens of a sign-in or a refresh."""

    access: AccessToken = field(repr=False)
    refresh_token: str = field(repr=False)


def issue_access_token(
    *, user: TokenUser, session: SessionRecord, amr: Sequence[AmrEntry], at: datetime
) -> AccessToken:
    """A token for this session of this user, issued at `at` and signed with the current signing key."""
    config = conf.current().jwt
    level = aal.level_of(entry.method for entry in amr)
    issued_at = int(at.timestamp())
    expires_at = _expiry(issued_at=issued_at, level=level, user=user, session=session)
    claims: dict[str, Any] = {"iss": config.issuer} if config.issuer else {}
    claims |= {
        "sub": str(user.id),
        "aud": user.aud,
        "exp": expires_at,
        "iat": issued_at,
        "email": user.email,
        "phone": user.phone,
        "app_metadata": orjson.Fragment(user.app_metadata_json),
        "user_metadata": orjson.Fragment(user.user_metadata_json),
        "role": user.role,
        "aal": level,
    }
    if amr:
        claims["amr"] = aal.amr_claim(amr)
    claims["session_id"] = str(session.id)
    claims["is_anonymous"] = user.is_anonymous
    if session.oauth_client_id is not None:
        claims["client_id"] = str(session.oauth_client_id)
        claims["scope"] = session.scopes or ""
    token = signing_keys.current().signing.encode(claims)
    return AccessToken(token=token, expires_in=expires_at - issued_at, expires_at=expires_at)


def _expiry(*, issued_at: int, level: str, user: TokenUser, session: SessionRecord) -> int:
    expires_at = issued_at + int(conf.current().jwt.exp.total_seconds())
    allow_low_aal = conf.current().sessions.allow_low_aal
    if allow_low_aal is None or level >= aal.highest_available(user):
        return expires_at
    return min(expires_at, int((session.created_at + allow_low_aal).timestamp()))
