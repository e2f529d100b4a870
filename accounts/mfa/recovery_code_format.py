"""Codes that stand in for a lost factor: how they look, how they may be typed, how they are stored."""

from __future__ import annotations

import hashlib
import secrets
from uuid import UUID

NUMBER = 10

# Without letters that are taken for digits or for one another; 80 bits in sixteen of them.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 16
_GROUP = 4
_MISREAD = str.maketrans("ilo", "110", " -")


def make() -> list[str]:
    """A set of new codes, each `xxxx-xxxx-xxxx-xxxx`."""
    return [_new() for _ in range(NUMBER)]


def digest(code: str, *, user_id: UUID) -> str:
    """How a user's code is stored: 64 hex digits. Blanks, hyphens, case and misread letters make no difference.

    A fast hash is enough: nobody can go through 2^80 codes.
    """
    bare = code.strip().lower().translate(_MISREAD)
    return hashlib.sha256(f"{user_id}:{bare}".encode()).hexdigest()


def _new() -> str:
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    return "-".join(letters[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))
