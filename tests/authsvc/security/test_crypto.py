"""Codes, link tokens, digests, derived keys and base64url."""

from __future__ import annotations

import pytest

from authsvc.conf import Secret
from authsvc.security import crypto
from tests.conftest import ChangeConfig


@pytest.mark.parametrize(
    ("identifier", "code", "expected"),
    [
        ("user@example.com", "123456", "b507a4ef007e1379d644aa6fe395cf98f1054ac96b63a052dca9a26a"),
        ("15551234567", "123456", "2c808f037c26239c5147d936c705c10a604a804181b145320b463f0c"),
        ("15551234567", "654321", "e5de32086430e4c8c5284acb0456446246964c299c70fad3a604215e"),
    ],
)
def test_a_code_is_stored_as_a_keyed_digest_of_address_and_code(identifier: str, code: str, expected: str) -> None:
    assert crypto.hash_code(identifier, code) == crypto.key_digest(expected)


def test_digests_depend_on_the_secret(auth_config: ChangeConfig) -> None:
    before = crypto.hash_code("user@example.com", "123456"), crypto.hash_link_token("abc")
    auth_config(jwt={"secret": Secret("another secret of this server")})
    after = crypto.hash_code("user@example.com", "123456"), crypto.hash_link_token("abc")
    assert [len(digest) for digest in before] == [64, 64]
    assert not set(before) & set(after)


@pytest.mark.parametrize("digits", [6, 8, 10])
def test_a_code_has_all_its_digits_and_keeps_leading_zeros(digits: int) -> None:
    codes = [crypto.generate_code(digits=digits) for _ in range(500)]
    assert all(len(code) == digits and code.isdecimal() for code in codes)
    assert any(code.startswith("0") for code in codes)
    assert len(set(codes)) > 490


def test_link_tokens_are_56_random_hex_digits() -> None:
    tokens = {crypto.generate_link_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 56 and set(token) <= set("0123456789abcdef") for token in tokens)


def test_the_prefix_of_a_link_token_is_hashed_with_it() -> None:
    # SHA-256 of "abc", FIPS 180-2 appendix B.1.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert crypto.hash_link_token("abc") == crypto.key_digest(digest)
    assert crypto.hash_link_token("pkce_abc") != crypto.hash_link_token("abc")


def test_a_random_key_is_32_bytes_in_43_characters() -> None:
    key = crypto.generate_key()
    assert len(key) == 43
    assert len(crypto.base64url_decode(key)) == 32
    assert crypto.generate_key() != key


def test_derived_keys_depend_on_label_and_secret(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"secret": Secret("first secret")})
    mail = crypto.derive_key("mail")
    assert len(mail) == 32
    assert crypto.derive_key("mail") == mail
    assert crypto.derive_key("console") != mail
    auth_config(jwt={"secret": Secret("second secret")})
    assert crypto.derive_key("mail") != mail


def test_key_derivation_follows_rfc_5869(auth_config: ChangeConfig) -> None:
    # RFC 5869 §2: with no salt, PRK = HMAC(32 zero bytes, secret) and the first block is HMAC(PRK, info | 0x01).
    auth_config(jwt={"secret": Secret("first secret")})
    assert crypto.derive_key("mail").hex() == "4f0f7253777e1a9152c9622cf9fbd6900eef642f26d60e2085615cc34ff2096b"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("abc", "abc", True),
        ("abc", b"abc", True),
        ("grün", "grün".encode(), True),
        ("abc", "abd", False),
        ("abc", "abcd", False),
        ("", b"", True),
    ],
)
def test_texts_and_bytes_are_compared_by_their_utf8(a: str | bytes, b: str | bytes, expected: bool) -> None:
    assert crypto.constant_time_equal(a, b) is expected


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"\xfb\xff\xfe", "-__-")],
)
def test_base64url_has_no_padding_and_a_url_safe_alphabet(content: bytes, text: str) -> None:
    assert crypto.base64url_encode(content) == text
    assert crypto.base64url_decode(text) == content


@pytest.mark.parametrize("text", ["Zg==", "Zm8=", "Z", "Zm9vZ", "+//+", "Zm 9", "Zm9v\n", "Zm9v.", "Zäg", "===="])
def test_base64url_rejects_padding_other_characters_and_invalid_lengths(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|padding|ascii"):
        crypto.base64url_decode(text)
