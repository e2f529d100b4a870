"""The token response (RFC 6749 §5.1), in a body and in the fragment of a redirect."""

from __future__ import annotations

from typing import Any

from tokens.sessions import users
from tokens.sessions.issuance import TokenPair
from tokens.sessions.users import TokenUser


def token_response(tokens: TokenPair, *, user: TokenUser, **further: Any) -> dict[str, Any]:
    """Tokens with the user; `further` members are added as they are."""
    return {
        "access_token": tokens.access.token,
        "token_type": "bearer",
        "expires_in": tokens.access.expires_in,
        "expires_at": tokens.access.expires_at,
        "refresh_token": tokens.refresh_token,
        "user": users.user_source.get().user_json(user),
        **further,
    }


def token_fragment(tokens: TokenPair, **further: str) -> dict[str, str]:
    """The same for the fragment of a redirect, where the client asks for the user itself."""
    return {
        "access_token": tokens.access.token,
        "expires_at": str(tokens.access.expires_at),
        "expires_in": str(tokens.access.expires_in),
        "refresh_token": tokens.refresh_token,
        "sb": "",
        "token_type": "bearer",
        **further,
    }
