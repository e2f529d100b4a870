"""The password policy: length, required characters and breach look-up."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from accounts import errors
from accounts.passwords import breaches, hashing
from authsvc import conf

_MIN_LENGTH = 6
_GENERATED_LENGTH = 21
# Without characters that look alike.
_UNAMBIGUOUS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """The parts of the policy that a password violates: codes for programs, and the same as sentences."""

    reasons: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def message(self) -> str:
        return " ".join(self.sentences)


def validate_password(password: str) -> None:
    """Check a new password. Raises PasswordTooLong, BreachLookupFailed or PasswordTooWeak.

    May use the network: call it outside a transaction.
    """
    hashing.check_length(password)
    is_breached = conf.current().breaches.enabled and breaches.is_breached(password)
    weakness = _weakness(password, is_breached=is_breached)
    if weakness is not None:
        raise errors.PasswordTooWeak(weakness.reasons, weakness.sentences)


def min_length() -> int:
    """The minimum number of characters (Unicode code points) in a new password."""
    return max(conf.current().passwords.min_length, _MIN_LENGTH)


def generate_password() -> str:
    """A random password of at least 120 bits that has the required length and characters."""
    config = conf.current().passwords
    # Short in bytes, of which a password has at most 72.
    sets = [[char for char in required if char.isascii()] or required for required in config.required_characters]
    characters = [secrets.choice(required) for required in sets]
    length = max(config.min_length - len(characters), _GENERATED_LENGTH)
    characters += [secrets.choice(_UNAMBIGUOUS) for _ in range(length)]
    secrets.SystemRandom().shuffle(characters)
    return "".join(characters)


def find_weakness(password: str) -> Weakness | None:
    """The weakness of a password that was just used to sign in; None when it meets the policy.

    Takes at most a second and never fails: without a response from the breach service the password counts as unknown
    there. Call it outside a transaction.
    """
    is_breached = conf.current().breaches.enabled and breaches.is_known_breached(password)
    return _weakness(password, is_breached=is_breached)


def _weakness(password: str, *, is_breached: bool) -> Weakness | None:
    policy = conf.current().passwords
    weaknesses: dict[str, str] = {}
    if len(password) < min_length():
        weaknesses["length"] = f"Password should be at least {min_length()} characters."
    if any(set(characters).isdisjoint(password) for characters in policy.required_characters):
        sets = ", ".join(policy.required_characters)
        weaknesses["characters"] = f"Password should contain at least one character of each: {sets}."
    if is_breached:
        weaknesses["pwned"] = "Password is known to be weak and easy to guess, please choose a different one."
    return Weakness(reasons=tuple(weaknesses), sentences=tuple(weaknesses.values())) if weaknesses else None
