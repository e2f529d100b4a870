"""The token response (RFC 6749 §5.1), in a body and in the fragment of a redirect."""

from __future__ import annotations

from typing import Any

from tokens.sessions import subjects
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.subjects import Subject


def token_response(tokens: TokenPair, *, subject: Subject, **further: Any) -> dict[str, Any]:
    """Tokens with the user; `further` members are added as they are."""
    return {
        "access_token": tokens.issued.token,
        "token_type": "bearer",
        "expires_in": tokens.issued.expires_in,
        "expires_at": tokens.issued.expires_at,
        "refresh_token": tokens.refresh_token,
        "user": subjects.user_source.get().present(subject),
        **further,
    }


def token_fragment(tokens: TokenPair, **further: str) -> dict[str, str]:
    """The same for the fragment of a redirect, where the client asks for the user itself."""
    return {
        "access_token": tokens.issued.token,
        "expires_at": str(tokens.issued.expires_at),
        "expires_in": str(tokens.issued.expires_in),
        "refresh_token": tokens.refresh_token,
        "sb": "",
        "token_type": "bearer",
        **further,
    }
