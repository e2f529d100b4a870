"""Signatures of calls, with published test vectors."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from authsvc.conf.types import Secret
from hooks.invocation import signatures

SYMMETRIC = "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
LONG = "v1,whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
PUBLIC, PRIVATE = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEY_PAIR = f"v1a,whpk_{PUBLIC}:whsk_{PRIVATE}"
SIGNATURES = {
    SYMMETRIC: "v1,eejZOJpOUx1WxoIAlAbpE3gWvI6WN4zO77cIqJ7QjD0=",
    LONG: "v1,NXfuM8XLGlhcr30ojormiOcr/9Hf2eNMzRScw2h1yHw=",
    KEY_PAIR: "v1a,7plmzFgU31r1tdV0vx8b6xyxOtBmPUGLtIBdIJ3acNnpYEXQa6zFW0Ss1pinCiUg3kKNqNFxOyi9XJ5xGwzhDA==",
}


def sign(*secrets: str) -> str:
    return signatures.sign(
        [Secret(secret) for secret in secrets],
        message_id="3f0c9a5e-1111-4222-8333-444455556666",
        timestamp=1767225600,
        body=b'{"metadata":{"uuid":"x"}}',
    )


@pytest.mark.parametrize(("secret", "expected"), SIGNATURES.items())
def test_vectors(secret: str, expected: str) -> None:
    assert sign(secret) == expected


def test_each_secret_signs_in_order() -> None:
    assert sign(LONG, KEY_PAIR, SYMMETRIC).split(" ") == [
        SIGNATURES[LONG],
        SIGNATURES[KEY_PAIR],
        SIGNATURES[SYMMETRIC],
    ]


@pytest.mark.parametrize("known", [SYMMETRIC, LONG])
def test_receivers_that_know_one_of_the_secrets_accept_the_call(known: str) -> None:
    secrets = [Secret(SYMMETRIC), Secret(LONG)]
    headers = signatures.signed_headers(secrets, message_id="a", timestamp=int(time.time()), body=b'{"a": 1}')
    assert Webhook(known.removeprefix("v1,")).verify(b'{"a": 1}', headers) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(b'{"a": 1}', headers)


def test_private_key_may_include_the_public_one() -> None:
    both = base64.b64encode(base64.b64decode(PRIVATE) + base64.b64decode(PUBLIC)).decode()
    assert sign(f"v1a,whpk_{PUBLIC}:whsk_{both}") == SIGNATURES[KEY_PAIR]


def test_no_secret_no_signature() -> None:
    headers = signatures.signed_headers([], message_id="a", timestamp=1, body=b"")
    assert headers == {"webhook-id": "a", "webhook-timestamp": "1"}
