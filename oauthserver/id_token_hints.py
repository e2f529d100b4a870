"""Reads ID tokens that clients return to this service (`id_token_hint`), in authorization and logout requests."""

from __future__ import annotations

from typing import Any

import jwt

from tokens.jwt import signing_keys

_MAX_LENGTH = 16_384


class IdTokenHintInvalid(Exception):
    """The text is no ID token that this service has signed."""


def read(token: str) -> dict[str, Any]:
    """The claims of an ID token of this service, also of an expired one. Raises IdTokenHintInvalid."""
    if len(token) > _MAX_LENGTH:
        raise IdTokenHintInvalid
    try:
        header = jwt.get_unverified_header(token)
        key = signing_keys.current().find(str(header.get("alg")), header.get("kid"))
        # A secret signs no ID tokens, and others may know it.
        if key is None or key.alg == signing_keys.HS256:
            raise IdTokenHintInvalid
        claims = key.decode(token)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise IdTokenHintInvalid from None
    # An access token has a session, and a logout token has events.
    is_id_token = "session_id" not in claims and "events" not in claims and header.get("typ", "JWT") == "JWT"
    names_client = claims.get("client_id") and claims.get("client_id") == claims.get("aud")
    if not (is_id_token and names_client and claims.get("iss") == signing_keys.issuer()):
        raise IdTokenHintInvalid
    return claims
