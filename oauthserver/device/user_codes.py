"""User codes: short codes that a device shows and the user types at another device (RFC 8628 §6.1)."""

from __future__ import annotations

import hashlib
import secrets

from authsvc.security import crypto

_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no word appears, and no digits or letters that look alike."""
_LENGTH = 8
_HALF = _LENGTH // 2


def generate() -> str:
    """A code without its dash: 34.5 random bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def render(code: str) -> str:
    """The code as users see it, in two halves."""
    return f"{code[:_HALF]}-{code[_HALF:]}"


def normalize(text: str) -> str:
    """The code that a user has typed, without the difference of case, dashes and spaces; empty for no possible code."""
    code = "".join(letter for letter in text[:64].upper() if letter not in "- \t")
    return code if len(code) == _LENGTH and set(code) <= set(_ALPHABET) else ""


def hash_code(code: str) -> str:
    """The stored digest of a normalized code, with a key, because the code has few random bits."""
    return crypto.key_digest(hashlib.sha256(code.encode()).hexdigest())
