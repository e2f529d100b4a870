"""The password policy: length, required characters and reasons."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accounts import errors
from accounts.passwords import hashing, policy

AuthConfig = Callable[..., object]

LENGTH = "Password should be at least 6 characters."
CHARACTERS = "Password should contain at least one character of each: a, b, c."


@pytest.mark.parametrize(
    ("password", "sets", "reasons", "message"),
    [
        ("12345", (), ("length",), LENGTH),
        ("", (), ("length",), LENGTH),
        ("12345", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("123", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("ab123", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("\U0001f511" * 5, (), ("length",), LENGTH),
        ("ab1234", ("a", "b", "c"), ("characters",), CHARACTERS),
    ],
)
def test_weak_password_is_rejected_with_every_reason(
    auth_config: AuthConfig, password: str, sets: tuple[str, ...], reasons: tuple[str, ...], message: str
) -> None:
    auth_config(passwords={"min_length": 6, "required_characters": sets})
    with pytest.raises(errors.PasswordTooWeak) as refusal:
        policy.validate_password(password)
    assert (refusal.value.status, refusal.value.error_code) == (422, "weak_password")
    assert refusal.value.message == message
    assert refusal.value.extra() == {"weak_password": {"reasons": list(reasons)}}
    weakness = policy.find_weakness(password)
    assert weakness is not None
    assert (weakness.reasons, weakness.message) == (reasons, message)


@pytest.mark.parametrize(
    ("password", "shortest", "sets"),
    [
        ("abc123", 6, ("a", "b", "c")),
        ("ccбbaa", 6, ("a", "b", "cd")),
        ("123456", 6, ()),
        ("éééééé", 6, ()),
        ("\U0001f511" * 8, 8, ()),
        ("12345678", 8, ()),
        ("      ", 6, (" ",)),
        ("x" * 72, 6, ()),
    ],
)
def test_a_password_that_meets_the_rules_is_accepted(
    auth_config: AuthConfig, password: str, shortest: int, sets: tuple[str, ...]
) -> None:
    auth_config(passwords={"min_length": shortest, "required_characters": sets})
    policy.validate_password(password)
    assert policy.find_weakness(password) is None


def test_the_minimum_length_can_be_raised_but_not_lowered(auth_config: AuthConfig) -> None:
    auth_config(passwords={"min_length": 8})
    with pytest.raises(errors.PasswordTooWeak, match="at least 8 characters"):
        policy.validate_password("1234567")
    auth_config(passwords={"min_length": 3})
    with pytest.raises(errors.PasswordTooWeak, match="at least 6 characters"):
        policy.validate_password("12345")


@pytest.mark.parametrize("password", ["x" * 73, "é" * 37])
def test_more_than_72_bytes_are_rejected_first(auth_config: AuthConfig, password: str) -> None:
    auth_config(passwords={"required_characters": ("!",)})
    for refuse in (policy.validate_password, hashing.hash_password):
        with pytest.raises(errors.PasswordTooLong) as refusal:
            refuse(password)
        assert (refusal.value.status, refusal.value.error_code) == (400, "validation_failed")
        assert refusal.value.message == "Password cannot be longer than 72 characters"


@pytest.mark.parametrize("min_length", [6, 21, 60, 72])
def test_a_generated_password_meets_the_policy(auth_config: AuthConfig, min_length: int) -> None:
    auth_config(passwords={"min_length": min_length, "required_characters": ("aé", "1", "\U0001f511!", "é")})
    if min_length == 72:  # in bytes, an é counts twice
        auth_config(passwords={"required_characters": ("aé", "1", "\U0001f511!", "Z")})
    policy.validate_password(policy.generate_password())
