"""Apple's client secret: a JWT signed with the developer's key, valid for at most six months."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import jwt

MAX_LIFETIME = timedelta(seconds=15_777_000)
_AUDIENCE = "https://appleid.apple.com"
_ALGORITHM = "ES256"


def create(*, team_id: str, key_id: str, client_id: str, private_key: str, lifetime: timedelta, at: datetime) -> str:
    """The secret of the application `client_id`; `private_key` is the PEM text of a `.p8` file.

    Raises ValueError for a key of another kind.
    """
    claims = {"iss": team_id, "iat": at, "exp": at + lifetime, "aud": _AUDIENCE, "sub": client_id}
    try:
        return jwt.encode(claims, private_key, algorithm=_ALGORITHM, headers={"kid": key_id})
    except (jwt.PyJWTError, TypeError, ValueError):
        # The text of the library's error may contain the key.
        raise ValueError("not an elliptic-curve private key as in Apple's .p8 files") from None


def expires_at(secret: str) -> datetime | None:
    """The expiry time of a secret; None for another text."""
    try:
        return datetime.fromtimestamp(jwt.decode(secret, options={"verify_signature": False})["exp"], UTC)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
