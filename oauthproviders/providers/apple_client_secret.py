"""The client secret that Apple wants: a token signed with the developer's key, which holds for half a year at most."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import jwt

LONGEST_LIFE = timedelta(seconds=15_777_000)
_AUDIENCE = "https://appleid.apple.com"
_ALGORITHM = "ES256"


def make(*, team_id: str, key_id: str, client_id: str, private_key: str, life: timedelta, at: datetime) -> str:
    """The secret of the application `client_id`; `private_key` is the PEM text of a `.p8` file.

    Raises ValueError when the key is none of the kind that Apple gives out.
    """
    claims = {"iss": team_id, "iat": at, "exp": at + life, "aud": _AUDIENCE, "sub": client_id}
    try:
        return jwt.encode(claims, private_key, algorithm=_ALGORITHM, headers={"kid": key_id})
    except (jwt.PyJWTError, TypeError, ValueError):
        # What the library says may quote the key.
        raise ValueError("not the private key of an elliptic curve, as a .p8 file of Apple has it") from None


def expires_at(secret: str) -> datetime | None:
    """Until when a secret holds; None for what is no such secret."""
    try:
        return datetime.fromtimestamp(jwt.decode(secret, options={"verify_signature": False})["exp"], UTC)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
