"""The token response (RFC 6749 §5.1), as a body and as the fragment of a redirect."""

from __future__ import annotations

from typing import Any

from tokens.sessions import users
from tokens.sessions.issuance import TokenPair
from tokens.sessions.users import TokenUser


def token_response(tokens: TokenPair, *, user: TokenUser, **additional: Any) -> dict[str, Any]:
    """Tokens with the user, and additional members."""
    return {
        "access_token": tokens.access.token,
        "token_type": "bearer",
        "expires_in": tokens.access.expires_in,
        "expires_at": tokens.access.expires_at,
        "refresh_token": tokens.refresh_token,
        "user": users.user_source.user_json(user),
        **additional,
    }


def token_fragment(tokens: TokenPair, **additional: str) -> dict[str, str]:
    """The parameters for the fragment of a redirect, which do not include the user."""
    return {
        "access_token": tokens.access.token,
        "expires_at": str(tokens.access.expires_at),
        "expires_in": str(tokens.access.expires_in),
        "refresh_token": tokens.refresh_token,
        "sb": "",
        "token_type": "bearer",
        **additional,
    }
