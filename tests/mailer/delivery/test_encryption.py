"""Encrypted messages decrypt unchanged, and only with their own id and key."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from authsvc.conf import Secret
from authsvc.messaging import Email, EmailType, HookCall, Sms, SmsType
from mailer.delivery import encryption
from mailer.rendering import renderer
from tests.conftest import ChangeConfig

EMAIL = Email(
    type=EmailType.RECOVERY,
    to="ada@example.com",
    variables={"Token": "123456", "Data": {"name": "Ada", "number": 2**70}},
    user_id=uuid4(),
    expires_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    language="de",
)
SMS = Sms(type=SmsType.PHONE_CHANGE, to="15551234567", channel="whatsapp", variables={"Code": "123456"})


HOOKED_EMAIL = replace(EMAIL, hook_call=HookCall(payload='{"user":{}}', address="192.0.2.1", other=EMAIL))
HOOKED_SMS = replace(SMS, hook_call=HookCall(payload='{"user":{}}'))


@pytest.mark.parametrize("message", [EMAIL, SMS, HOOKED_EMAIL, HOOKED_SMS])
def test_a_decrypted_message_equals_the_original(message: Email | Sms) -> None:
    assert encryption.decrypt(encryption.encrypt(message), message_id=message.id) == message


def test_a_message_of_an_earlier_version_has_no_language() -> None:
    content: dict[str, Any] = {
        "kind": "recovery",
        "to": "ada@example.com",
        "variables": {},
        "user_id": None,
        "expires_at": None,
    }
    message_id, nonce = uuid4(), bytes(12)
    plain = json.dumps({**content, "sms_channel": None}).encode()
    stored = base64.b64encode(nonce + encryption.cipher().encrypt(nonce, plain, message_id.bytes)).decode()
    message = encryption.decrypt(stored, message_id=message_id)
    assert message == Email(type=EmailType.RECOVERY, to="ada@example.com", variables={}, id=message_id)
    assert renderer.render(EmailType.RECOVERY, {}, language=message.language).subject == "Reset Your Password"


def test_ciphertexts_reveal_no_content_and_differ() -> None:
    first, second = encryption.encrypt(EMAIL), encryption.encrypt(EMAIL)
    assert first != second
    raw = first.encode() + base64.b64decode(first)
    assert not [word for word in (b"ada", b"123456", b"recovery", str(EMAIL.user_id).encode()) if word in raw]


def test_a_ciphertext_decrypts_only_for_its_own_message() -> None:
    with pytest.raises(encryption.DecryptionFailed):
        encryption.decrypt(encryption.encrypt(EMAIL), message_id=uuid4())


@pytest.mark.parametrize("sealed", ["", "no base64!", base64.b64encode(b"short").decode()])
def test_invalid_ciphertexts_are_rejected(sealed: str) -> None:
    with pytest.raises(encryption.DecryptionFailed):
        encryption.decrypt(sealed, message_id=EMAIL.id)


def test_a_changed_bit_is_detected() -> None:
    raw = bytearray(base64.b64decode(encryption.encrypt(EMAIL)))
    raw[-1] ^= 1
    with pytest.raises(encryption.DecryptionFailed):
        encryption.decrypt(base64.b64encode(raw).decode(), message_id=EMAIL.id)


def test_another_jwt_secret_does_not_decrypt_it(auth_config: ChangeConfig) -> None:
    sealed = encryption.encrypt(EMAIL)
    auth_config(jwt={"secret": Secret("another-secret-of-at-least-32-characters")})
    with pytest.raises(encryption.DecryptionFailed):
        encryption.decrypt(sealed, message_id=EMAIL.id)


def test_variables_that_are_not_json_are_rejected() -> None:
    with pytest.raises(TypeError):
        encryption.encrypt(Email(type=EmailType.INVITE, to="a@example.com", variables={"Token": object()}))
