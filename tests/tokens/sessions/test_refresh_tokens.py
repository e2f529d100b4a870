"""Refresh tokens in the counter format, byte by byte, and the accepted formats."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from authsvc.security import crypto
from tokens.sessions import refresh_tokens
from tokens.sessions.errors import RefreshTokenNotValid

KEY = bytes(range(32))
SESSION = UUID("a7e4ad19-bd3d-48a1-8c0e-0a3f4c1b2d5e")
OTHER_SESSION = UUID("11111111-2222-4333-8444-555555555555")
NIL_TOKEN = "AAAAAAAAAAAAAAAAAAAAAAAAP9aRk-6XCL3qEQuinyNf8s39HoY"

TEST_VECTORS = [
    (SESSION, KEY, 0, "AKfkrRm9PUihjA4KP0wbLV4AnAVQCEABD_voo7-siOVYt9vqF78"),
    (SESSION, KEY, 1, "AKfkrRm9PUihjA4KP0wbLV4BaKNogmV0zOtqeAztYDbfT2H5RqI"),
    (SESSION, KEY, 127, "AKfkrRm9PUihjA4KP0wbLV5_wRaLGAf8f9ZnW3dQPD9b4-NKndA"),
    (SESSION, KEY, 128, "AKfkrRm9PUihjA4KP0wbLV6AASGfado9wHRLucxFo3O83jaeYC0i"),
    (SESSION, KEY, 300, "AKfkrRm9PUihjA4KP0wbLV6sAk9NsnIq_WXz8gCzMLrwSgBZJp43"),
    (SESSION, KEY, 2**63 - 1, "AKfkrRm9PUihjA4KP0wbLV7__________38P8dp8au-yWLXk8ZXf67TTKcB35g"),
    (UUID(int=0), bytes(32), 0, NIL_TOKEN),
    (OTHER_SESSION, KEY, 0, "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2M"),
    (OTHER_SESSION, KEY, 300, "ABEREREiIkMzhERVVVVVVVWsAg7ZC0vLuQzqLzMCy_Bbh8fZrB2g"),
]


def with_checksum(content: bytes) -> str:
    return crypto.base64url_encode(content + hashlib.sha256(content).digest()[:4])


def encode_token(counter: bytes, *, signature: bytes = bytes(16)) -> str:
    return with_checksum(b"\x00" + SESSION.bytes + counter + signature)


@pytest.mark.parametrize(("session_id", "key", "counter", "text"), TEST_VECTORS)
def test_token_encodes_session_counter_and_signature(session_id: UUID, key: bytes, counter: int, text: str) -> None:
    assert refresh_tokens.encode(session_id=session_id, counter=counter, key=key) == text
    presented = refresh_tokens.decode(text)
    assert (presented.session_id, presented.counter) == (session_id, counter)
    assert presented.is_signed_with(key)
    assert not presented.is_signed_with(bytes(31) + b"\x01")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (crypto.base64url_encode(bytes(37)), "length"),
        (crypto.base64url_encode(bytes(38)), "checksum"),
        (crypto.base64url_encode(b"\x01" + bytes(37)), "version"),
        (with_checksum(b"\x01" + bytes(33)), "version"),
        (with_checksum(b"\x00" + SESSION.bytes + b"\xff" * 17), "counter"),
        (encode_token(b"\xff" * 9 + b"\x02"), "counter"),
        (encode_token(b"\x80" * 10 + b"\x00"), "counter"),
        (with_checksum(b"\x00" + SESSION.bytes + b"\xff\x00" + bytes(15)), "length"),
        (encode_token(b"\x00", signature=bytes(17)), "length"),
        ("!" * 51, "base64"),
        (NIL_TOKEN + "=", "base64"),
        ("", "length"),
    ],
)
def test_malformed_token_names_first_malformed_part(text: str, reason: str) -> None:
    with pytest.raises(refresh_tokens.Malformed, match=f"^{reason}$"):
        refresh_tokens.decode(text)


@pytest.mark.parametrize("counter", [b"\xff" * 9 + b"\x01", b"\x80" * 9 + b"\x01"])
def test_64_bit_counter_is_capped_at_column_maximum(counter: bytes) -> None:
    presented = refresh_tokens.decode(encode_token(counter))
    assert presented.counter == 2**63 - 1


def test_signature_covers_received_bytes_of_counter() -> None:
    # A zero encoded in two bytes is the same counter, but another token.
    valid = crypto.base64url_decode(TEST_VECTORS[0][3])
    two_byte_zero = encode_token(b"\x80\x00", signature=valid[18:34])
    assert refresh_tokens.decode(two_byte_zero).counter == 0
    assert not refresh_tokens.decode(two_byte_zero).is_signed_with(KEY)


@pytest.mark.parametrize("position", [0, 1, 16, 17, 18, 33, 34, 37])
def test_token_with_changed_byte_is_rejected(position: int) -> None:
    content = bytearray(crypto.base64url_decode(TEST_VECTORS[0][3]))
    content[position] ^= 1
    with pytest.raises(refresh_tokens.Malformed):
        refresh_tokens.decode(crypto.base64url_encode(bytes(content)))


def test_repr_does_not_show_the_signature() -> None:
    presented = refresh_tokens.decode(TEST_VECTORS[0][3])
    assert str(presented.session_id) in repr(presented)
    assert "signed" not in repr(presented)
    assert "signature" not in repr(presented)


@pytest.mark.parametrize(
    "text",
    ["", "01234567890", "AAAAAAAAAAAA", "------------", "0000000000000", "0123456abcd\n", "ä" * 12, "a" * 21, "+" * 22],
)
def test_text_without_token_format_is_rejected(text: str) -> None:
    with pytest.raises(RefreshTokenNotValid) as raised:
        refresh_tokens.check_format(text)
    assert (raised.value.status, raised.value.error_code) == (400, "validation_failed")
    assert raised.value.message == "Refresh token is not valid"


@pytest.mark.parametrize(
    ("text", "legacy"),
    [
        ("0123456abcde", True),
        ("AbCdEfGhIjKlMnOpQr_-09", True),
        (NIL_TOKEN, False),
        (TEST_VECTORS[5][3], False),
    ],
)
def test_counter_and_legacy_formats_are_distinguished(text: str, legacy: bool) -> None:
    refresh_tokens.check_format(text)
    assert refresh_tokens.is_legacy(text) is legacy
