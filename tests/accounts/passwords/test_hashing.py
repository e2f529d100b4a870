"""Hashing and verification: our own format and the formats of imported accounts, constant time, and slots."""

from __future__ import annotations

import re

import argon2
import bcrypt
import pytest
from django.test import override_settings

from accounts.passwords import hashing

ARGON2I = "$argon2i$v=19$m=16,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g"
ARGON2ID = "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk"
FIREBASE = (
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2"
    "g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+"
    "hfTw=="
)
BCRYPT_4 = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"
BCRYPT_10 = "$2y$10$srNl09aPtc2qr.0Vl.NtjekJRt/NxRxYQm3qd3OvfcKsJgVnr6.Ve"

# Verification does not depend on the hasher for new hashes.
OURS = "accounts.passwords.hashing.Argon2id"


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        (ARGON2I, "test"),
        (ARGON2ID, "test"),
        (FIREBASE, "mytestpassword"),
        (BCRYPT_4, "test"),
        (BCRYPT_10, "test"),
        (BCRYPT_4.replace("$2y$", "$2a$"), "test"),
        (BCRYPT_4.replace("$2y$", "$2$"), "test"),
    ],
)
def test_imported_hashes_are_verified_and_need_rehash(stored: str, password: str) -> None:
    assert hashing.matches_hash(password, stored)
    assert not hashing.matches_hash(f"{password}1", stored)
    assert not hashing.matches_hash("", stored)
    assert hashing.is_supported(stored)
    assert hashing.needs_rehash(stored)


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        (ARGON2ID.replace("argon2id", "argon2d"), "test"),
        (ARGON2ID.replace("argon2id", "argon2"), "test"),
        (ARGON2ID.replace("v=19", "v=16"), "test"),
        (ARGON2ID.replace("v=19$", ""), "test"),
        (ARGON2ID.replace("p=2", "p=2,keyid=AA"), "test"),
        (ARGON2ID.replace("p=2", "p=2,data=AA"), "test"),
        (ARGON2ID.replace("p=2", "p=256"), "test"),
        (ARGON2ID.replace("p=2", "p=17"), "test"),
        (ARGON2ID.replace("t=3", "t=21"), "test"),
        (ARGON2ID.replace("m=32", "m=262145"), "test"),
        (ARGON2ID.replace("m=32,t=3", "m=262144,t=4"), "test"),
        (ARGON2ID.replace("m=32,t=3", "m=65536,t=13"), "test"),
        (BCRYPT_4.replace("$04$", "$15$"), "test"),
        (BCRYPT_4.replace("$04$", "$31$"), "test"),
        (FIREBASE.replace("p=1", "p=9"), "mytestpassword"),
        (ARGON2ID.replace("m=32", "m=-1"), "test"),
        (ARGON2ID.replace("SFVpOWJ0eXhjRzVkdGN1RQ", ""), "test"),
        (ARGON2ID.rpartition("$")[0] + "$", "test"),
        (ARGON2ID + "=", "test"),
        (ARGON2ID + "\n", "test"),
        (FIREBASE.replace("v=1", "v=2"), "mytestpassword"),
        (FIREBASE.replace("n=14", "n=0"), "mytestpassword"),
        (FIREBASE.replace("r=8", "r=0"), "mytestpassword"),
        (FIREBASE.replace("p=1", "p=0"), "mytestpassword"),
        (FIREBASE.replace("p=1", "p=256"), "mytestpassword"),
        (FIREBASE.replace("n=14", "n=17"), "mytestpassword"),
        (FIREBASE.replace("n=14", "n=99"), "mytestpassword"),
        (FIREBASE.replace("n=14,r=8", "n=16,r=1"), "mytestpassword"),
        (FIREBASE.replace("r=8", "r=999999"), "mytestpassword"),
        (FIREBASE.replace("n=14,r=8,p=1", "n=1,r=100000,p=255"), "mytestpassword"),
        (FIREBASE.replace("ss=Bw==", "ss=B"), "mytestpassword"),
        (FIREBASE.replace("C0sHCg9ek77hsg==", "C0sHCg9ek77hsg"), "mytestpassword"),
        (FIREBASE.replace("hfTw==", "hfT!=="), "mytestpassword"),
        (BCRYPT_4.replace("$04$", "$03$"), "test"),
        (BCRYPT_4.replace("$04$", "$32$"), "test"),
        (BCRYPT_4[:-1], "test"),
        (BCRYPT_4.replace("$2y$", "$3y$"), "test"),
        ("test", "test"),
        ("", ""),
        ("$", "test"),
        ("!unusable", "test"),
        ("pbkdf2_sha256$1$a$b", "test"),
    ],
)
def test_a_malformed_or_too_expensive_hash_matches_nothing(stored: str, password: str) -> None:
    assert not hashing.matches_hash(password, stored)
    assert not hashing.is_supported(stored)
    assert hashing.needs_rehash(stored)


def test_bcrypt_uses_first_72_bytes() -> None:
    stored = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert hashing.matches_hash("x" * 80, stored)
    assert not hashing.matches_hash("x" * 71, stored)


@pytest.mark.parametrize("without", [",ss=Bw==", ",sk="])
def test_a_firebase_hash_may_lack_separator_and_signer_key(without: str) -> None:
    stored = re.sub(rf"{without}[^,$]*", "", FIREBASE)
    assert stored != FIREBASE
    assert hashing.is_supported(stored)
    assert not hashing.matches_hash("mytestpassword", stored)


@override_settings(PASSWORD_HASHERS=[OURS])
def test_new_hashes_are_argon2id_with_the_minimum_parameters() -> None:
    stored = hashing.hash_password("correct horse")
    assert re.fullmatch(r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22,}\$[A-Za-z0-9+/]{43}", stored)
    assert hashing.matches_hash("correct horse", stored)
    assert not hashing.matches_hash("correct horse ", stored)
    assert not hashing.needs_rehash(stored)
    assert stored != hashing.hash_password("correct horse")


@override_settings(PASSWORD_HASHERS=[OURS])
def test_argon2id_with_the_same_costs_needs_no_rehash() -> None:
    assert not hashing.needs_rehash("$argon2id$v=19$m=19456,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g")
    for other in ("m=19457,t=2,p=1", "m=19456,t=3,p=1", "m=19456,t=2,p=2"):
        assert hashing.needs_rehash(f"$argon2id$v=19${other}$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g")


def test_passwords_in_any_script_are_accepted() -> None:
    stored = hashing.hash_password("пароль🔑")
    assert hashing.matches_hash("пароль🔑", stored)
    assert not hashing.matches_hash("пароль", stored)


def test_password_matches_its_own_hash_only() -> None:
    stored = hashing.hash_password("correct horse")
    assert hashing.verify_password("correct horse", stored)
    assert not hashing.verify_password("wrong horse", stored)
    assert hashing.verify_password("test", ARGON2I)
    assert not hashing.verify_password("test1", ARGON2I)


@pytest.mark.parametrize("stored", [None, "", "not a hash"])
def test_missing_or_malformed_hash_matches_no_password(stored: str | None) -> None:
    assert not hashing.verify_password("anything", stored)
    assert not hashing.verify_password("", stored)


def test_unusable_hash_is_supported_and_matches_no_password() -> None:
    stored = hashing.unusable_hash()
    assert stored != hashing.unusable_hash()
    assert hashing.is_supported(stored)
    assert not hashing.verify_password("", stored)
    with override_settings(PASSWORD_HASHERS=[OURS]):
        assert not hashing.needs_rehash(stored)


def test_overlong_password_matches_no_hash() -> None:
    bcrypt = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"
    assert not hashing.verify_password("x" * 73, hashing.hash_password("x" * 72))
    assert not hashing.verify_password("test" + "\x01" * 100, bcrypt)


@pytest.mark.parametrize(
    ("password", "against"),
    [("wrong", "ours"), ("wrong", None), ("wrong", ""), ("wrong", "no hash"), ("wrong", ARGON2I), ("x" * 73, "ours")],
)
def test_every_failed_verification_computes_own_hash(
    monkeypatch: pytest.MonkeyPatch, password: str, against: str | None
) -> None:
    stored = hashing.hash_password("correct horse") if against == "ours" else against
    hashing.verify_password("wrong", None)  # creates the cached comparison hash
    compared: list[str] = []
    verify = argon2.PasswordHasher.verify

    def spy(hasher: argon2.PasswordHasher, hash: str, password: str) -> bool:
        compared.append(hash)
        return verify(hasher, hash, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", spy)
    assert not hashing.verify_password(password, stored)
    parameters = hashing.hash_password("any").rpartition("$")[0].rpartition("$")[0]
    assert [stored for stored in compared if stored.startswith(parameters)]
