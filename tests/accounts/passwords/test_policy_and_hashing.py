"""The password policy, and verification in constant time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import argon2
import pytest
from django.test import override_settings

from accounts import errors
from accounts.passwords import hashers, hashing, policy

AuthConfig = Callable[..., object]

IMPORTED = "$argon2i$v=19$m=16,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g"
LENGTH = "Password should be at least 6 characters."
CHARACTERS = "Password should contain at least one character of each: a, b, c."


class CountingHasher(hashers.Argon2id):
    """Cheap, and notes how many are at work at once."""

    memory_cost = 64
    time_cost = 1

    at_work = 0
    most_at_work = 0
    _lock = threading.Lock()

    def encode(self, password: str, salt: str) -> str:
        kind = type(self)
        with kind._lock:
            kind.at_work += 1
            kind.most_at_work = max(kind.most_at_work, kind.at_work)
        threading.Event().wait(0.005)
        with kind._lock:
            kind.at_work -= 1
        return super().encode(password, salt)


@pytest.mark.parametrize(
    ("password", "sets", "reasons", "message"),
    [
        ("12345", (), ("length",), LENGTH),
        ("", (), ("length",), LENGTH),
        ("12345", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("123", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("ab123", ("a", "b", "c"), ("length", "characters"), f"{LENGTH} {CHARACTERS}"),
        ("ab1234", ("a", "b", "c"), ("characters",), CHARACTERS),
    ],
)
def test_a_weak_password_is_refused_with_every_reason(
    auth_config: AuthConfig, password: str, sets: tuple[str, ...], reasons: tuple[str, ...], message: str
) -> None:
    auth_config(passwords={"min_length": 6, "required_characters": sets})
    with pytest.raises(errors.WeakPassword) as refusal:
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
        ("ééé", 6, ()),
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
    with pytest.raises(errors.WeakPassword, match="at least 8 characters"):
        policy.validate_password("1234567")
    auth_config(passwords={"min_length": 3})
    with pytest.raises(errors.WeakPassword, match="at least 6 characters"):
        policy.validate_password("12345")


@pytest.mark.parametrize("password", ["x" * 73, "é" * 37])
def test_more_than_72_bytes_are_refused_before_anything_else(auth_config: AuthConfig, password: str) -> None:
    auth_config(passwords={"required_characters": ("!",)})
    for refuse in (policy.validate_password, hashing.hash_password):
        with pytest.raises(errors.PasswordTooLong) as refusal:
            refuse(password)
        assert (refusal.value.status, refusal.value.error_code) == (400, "validation_failed")
        assert refusal.value.message == "Password cannot be longer than 72 characters"


def test_a_password_matches_its_own_hash_alone() -> None:
    stored = hashing.hash_password("correct horse")
    assert hashing.verify_password("correct horse", stored)
    assert not hashing.verify_password("wrong horse", stored)
    assert hashing.verify_password("test", IMPORTED)
    assert not hashing.verify_password("test1", IMPORTED)


@pytest.mark.parametrize("stored", [None, "", "not a hash"])
def test_nothing_matches_where_there_is_no_hash(stored: str | None) -> None:
    assert not hashing.verify_password("anything", stored)
    assert not hashing.verify_password("", stored)


def test_an_undisclosed_password_is_a_hash_like_any_other_that_nothing_matches() -> None:
    stored = hashing.unusable_hash()
    assert stored != hashing.unusable_hash()
    assert hashers.is_supported(stored)
    assert not hashing.verify_password("", stored)
    with override_settings(PASSWORD_HASHERS=["accounts.passwords.hashers.Argon2id"]):
        assert not hashers.needs_rehash(stored)


def test_a_long_password_matches_nothing_not_even_by_its_beginning() -> None:
    bcrypt = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"
    assert not hashing.verify_password("x" * 73, hashing.hash_password("x" * 72))
    assert not hashing.verify_password("test" + "\x01" * 100, bcrypt)


@pytest.mark.parametrize(
    ("password", "against"),
    [("wrong", "ours"), ("wrong", None), ("wrong", ""), ("wrong", "no hash"), ("wrong", IMPORTED), ("x" * 73, "ours")],
)
def test_every_refusal_costs_a_hash_of_our_own(
    monkeypatch: pytest.MonkeyPatch, password: str, against: str | None
) -> None:
    stored = hashing.hash_password("correct horse") if against == "ours" else against
    hashing.verify_password("wrong", None)  # creates the cached comparison hash
    compared: list[str] = []
    verify = argon2.PasswordHasher.verify

    def spy(hasher: argon2.PasswordHasher, hash: str, given: str) -> bool:
        compared.append(hash)
        return verify(hasher, hash, given)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", spy)
    assert not hashing.verify_password(password, stored)
    parameters = hashing.hash_password("any").rpartition("$")[0].rpartition("$")[0]
    assert [each for each in compared if each.startswith(parameters)]


@override_settings(PASSWORD_HASHERS=[f"{__name__}.CountingHasher"])
def test_no_more_hashes_are_at_work_than_there_are_cores() -> None:
    threads = [threading.Thread(target=hashing.hash_password, args=("correct horse",)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < CountingHasher.most_at_work <= (os.cpu_count() or 1)
