"""Proof Key for Code Exchange (RFC 7636): code challenges and their verification."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from authsvc.security import crypto
from tokens.flows import errors

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]*")
_METHODS = frozenset({"s256", "plain"})


@dataclass(frozen=True, slots=True)
class Challenge:
    """A stored code challenge; `method` is `s256` or `plain`."""

    value: str = field(repr=False)
    method: str


def parse_challenge(*, challenge: str | None, method: str | None) -> Challenge | None:
    """The challenge of a request; None without both parameters. An empty parameter counts as absent.

    Raises IncompletePkceParameters, CodeChallengeLength, CodeChallengeCharacters, ChallengeMethodNotKnown.
    """
    if not challenge and not method:
        return None
    if not challenge or not method:
        raise errors.IncompletePkceParameters
    if not 43 <= len(challenge) <= 128:
        raise errors.CodeChallengeLength
    if not _UNRESERVED.fullmatch(challenge):
        raise errors.CodeChallengeCharacters
    if method.lower() not in _METHODS:
        raise errors.ChallengeMethodNotKnown
    return Challenge(value=challenge, method=method.lower())


def matches(*, challenge: str, method: str, verifier: str) -> bool:
    """True if `verifier` belongs to the stored challenge (RFC 7636 §4.6). Raises UnknownChallengeMethod."""
    match method:
        case "s256":
            computed = crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest())
        case "plain":
            computed = verifier
        case _:
            raise errors.UnknownChallengeMethod
    return crypto.constant_time_equal(computed, challenge)
