"""Authenticator assurance level (AAL) and authentication methods (AMR) of a session."""

from __future__ import annotations

from collections.abc import Iterable

from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions.users import TokenUser

AAL1 = "aal1"
AAL2 = "aal2"

SECOND_FACTORS = frozenset({"totp", "mfa/phone", "mfa/webauthn", "mfa/recovery_code"})
"""Methods that raise a session to `aal2`."""
_RECOVERY_METHODS = frozenset({"otp", "magiclink", "recovery"})


def level_of(methods: Iterable[str]) -> str:
    """`aal2` when a second factor is among the methods, else `aal1`."""
    return AAL1 if SECOND_FACTORS.isdisjoint(methods) else AAL2


def highest_available(user: TokenUser) -> str:
    """The highest level that the user can reach with their enrolled factors."""
    return AAL2 if user.has_verified_factor else AAL1


def is_recovery(methods: Iterable[str]) -> bool:
    """True if the session began with a code or link from an email, so that the user may not know the password."""
    return not _RECOVERY_METHODS.isdisjoint(methods)


def amr_claim(entries: Iterable[AmrEntry]) -> list[dict[str, str | int]]:
    """The `amr` claim, most recent method first; `timestamp` in Unix seconds."""
    newest_first = sorted(entries, key=lambda entry: entry.at, reverse=True)
    return [_as_json(entry) for entry in newest_first]


def _as_json(entry: AmrEntry) -> dict[str, str | int]:
    content: dict[str, str | int] = {"method": entry.method, "timestamp": int(entry.at.timestamp())}
    if entry.provider is not None:
        content["provider"] = entry.provider
    return content
