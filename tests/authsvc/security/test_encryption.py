"""Column encryption: stored values, keys that decrypt them, and values that are rejected."""

from __future__ import annotations

import json
from typing import Protocol
from uuid import UUID

import pytest

from authsvc.conf import Secret
from authsvc.security import crypto, encryption
from tests.conftest import ChangeConfig


class ChooseKey(Protocol):
    def __call__(self, key_id: str, *, encrypt: bool = True) -> None: ...


ROW = UUID("a7e4ad19-bd3d-48a1-8c0e-0a3f4c1b2d5e")
OTHER_ROW = UUID("b7e4ad19-bd3d-48a1-8c0e-0a3f4c1b2d5e")
KEY = "pwFoiPyybQMqNmYVN0gUnpbfpGQV2sDv9vp0ZAxi_Y4"
OTHER_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
STORED = '{"key_id":"key-id","alg":"aes-gcm-hkdf","data":"K758joTmMrjQv3HkH2Y0Ap6I9ds=","nonce":"AAECAwQFBgcICQoL"}'

PLAIN = [
    "",
    "plain",
    "not-an-encrypted-string",
    "{{",
    "{}",
    '{"key_id":"k","alg":"different","data":"AQAB","nonce":"AQAB"}',
    STORED.replace("key-id", ""),
    STORED.replace("K758joTmMrjQv3HkH2Y0Ap6I9ds=", ""),
    STORED.replace("AAECAwQFBgcICQoL", "AAECAwQFBgcICQo="),
    STORED.replace("K758joTm", "K758jo*m"),
]


@pytest.fixture
def keys_a_and_b(auth_config: ChangeConfig) -> ChooseKey:
    def choose(key_id: str, *, encrypt: bool = True) -> None:
        keys = {"a": Secret(KEY), "b": Secret(OTHER_KEY)}
        auth_config(
            database={
                "encrypt": encrypt,
                "encryption_key_id": key_id,
                "encryption_key": keys[key_id],
                "decryption_keys": keys,
            }
        )

    choose("a")
    return choose


def test_a_value_encrypted_by_the_reference_is_decrypted(auth_config: ChangeConfig) -> None:
    auth_config(database={"decryption_keys": {"key-id": Secret(KEY)}})
    assert encryption.decrypt(STORED, bound_to=ROW) == "data"


@pytest.mark.parametrize(
    ("stored", "row", "keys"),
    [
        pytest.param(STORED, OTHER_ROW, {"key-id": KEY}, id="another row"),
        pytest.param(STORED, ROW, {"key-id": OTHER_KEY}, id="another key under this id"),
        pytest.param(STORED, ROW, {"other-id": KEY}, id="unknown key id"),
        pytest.param(STORED.replace("9ds=", "9dw="), ROW, {"key-id": KEY}, id="last byte changed"),
        pytest.param(
            STORED.replace("K758joTmMrjQv3HkH2Y0Ap6I9ds=", "AQAB"), ROW, {"key-id": KEY}, id="shorter than a tag"
        ),
    ],
)
def test_values_of_other_rows_and_keys_are_not_decrypted(
    auth_config: ChangeConfig, stored: str, row: UUID, keys: dict[str, str]
) -> None:
    auth_config(database={"decryption_keys": {key_id: Secret(key) for key_id, key in keys.items()}})
    with pytest.raises(encryption.DecryptionError) as caught:
        encryption.decrypt(stored, bound_to=row)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("stored", PLAIN)
def test_anything_else_is_a_plain_value(keys_a_and_b: ChooseKey, stored: str) -> None:
    assert encryption.decrypt(stored, bound_to=ROW) == stored
    assert encryption.needs_reencryption(stored)


@pytest.mark.parametrize("text", ["", "secret", "grüße \N{OK HAND SIGN}", "{}"])
def test_an_encrypted_value_is_decrypted_and_hides_its_text(keys_a_and_b: ChooseKey, text: str) -> None:
    stored = encryption.encrypt(text, bound_to=ROW)
    assert encryption.decrypt(stored, bound_to=ROW) == text
    assert not encryption.needs_reencryption(stored)
    members = json.loads(stored)
    assert list(members) == ["key_id", "alg", "data", "nonce"]
    assert (members["key_id"], members["alg"]) == ("a", "aes-gcm-hkdf")
    assert text == "" or text not in stored


def test_equal_texts_have_different_ciphertexts(keys_a_and_b: ChooseKey) -> None:
    assert encryption.encrypt("secret", bound_to=ROW) != encryption.encrypt("secret", bound_to=ROW)


def test_without_encryption_values_stay_plain_and_envelopes_are_decrypted(keys_a_and_b: ChooseKey) -> None:
    stored = encryption.encrypt("secret", bound_to=ROW)
    keys_a_and_b("a", encrypt=False)
    assert encryption.encrypt("secret", bound_to=ROW) == "secret"
    assert encryption.decrypt(stored, bound_to=ROW) == "secret"
    assert not encryption.needs_reencryption("secret")
    assert not encryption.needs_reencryption(stored)


def test_after_a_key_change_old_envelopes_need_reencryption(keys_a_and_b: ChooseKey) -> None:
    stored = encryption.encrypt("secret", bound_to=ROW)
    keys_a_and_b("b")
    assert encryption.decrypt(stored, bound_to=ROW) == "secret"
    assert encryption.needs_reencryption(stored)
    assert json.loads(encryption.encrypt("secret", bound_to=ROW))["key_id"] == "b"


def test_a_random_key_can_be_the_encryption_key(auth_config: ChangeConfig) -> None:
    key = Secret(crypto.generate_key())
    auth_config(
        database={"encrypt": True, "encryption_key_id": "new", "encryption_key": key, "decryption_keys": {"new": key}}
    )
    assert encryption.decrypt(encryption.encrypt("secret", bound_to=ROW), bound_to=ROW) == "secret"
