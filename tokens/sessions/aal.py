"""How well a session is authenticated: the methods used in it (AMR) and the level they reach (AAL)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokens.sessions.subjects import Subject

AAL1 = "aal1"
AAL2 = "aal2"

SECOND_FACTORS = frozenset({"totp", "mfa/phone", "mfa/webauthn", "mfa/recovery_code"})
"""Methods that raise a session to `aal2`."""
_RECOVERY_METHODS = frozenset({"otp", "magiclink", "recovery"})


@dataclass(frozen=True, slots=True)
class AmrEntry:
    """One authentication method of a session and when it was last used."""

    method: str
    at: datetime
    provider: str | None = None
    """The SSO provider's id, for `sso/saml`."""


def aal(methods: Iterable[str]) -> str:
    """`aal2` when a second factor is among the methods, else `aal1`."""
    return AAL1 if SECOND_FACTORS.isdisjoint(methods) else AAL2


def claim(entries: Iterable[AmrEntry]) -> list[dict[str, str | int]]:
    """The `amr` claim, most recent method first; `timestamp` in Unix seconds."""
    newest_first = sorted(entries, key=lambda entry: entry.at, reverse=True)
    return [_claim(entry) for entry in newest_first]


def highest_possible(subject: Subject) -> str:
    """The level the user could reach with what they have enrolled."""
    return AAL2 if subject.has_verified_factor else AAL1


def is_recovery(methods: Iterable[str]) -> bool:
    """Whether the session began with a mailed code or link, so that its user need not know the password."""
    return not _RECOVERY_METHODS.isdisjoint(methods)


def _claim(entry: AmrEntry) -> dict[str, str | int]:
    content: dict[str, str | int] = {"method": entry.method, "timestamp": int(entry.at.timestamp())}
    if entry.provider is not None:
        content["provider"] = entry.provider
    return content
