"""Codes that Twilio Verify generates and checks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from authsvc.messaging import PhoneVerifier, contract
from tests.fakes.http_peer import HttpPeer, MockedServer, Response, in_json
from tests.mailer.sms.conftest import UseGateway


@pytest.fixture
def verifier(use_gateway: UseGateway) -> PhoneVerifier:
    use_gateway("twilio_verify")
    return contract.phone_verifier


@pytest.mark.parametrize("status", [200, 201])
def test_an_approved_code_is_accepted(gateway: MockedServer, verifier: PhoneVerifier, status: int) -> None:
    gateway.respond(in_json({"status": "approved", "valid": True}, status=status))
    assert verifier.is_approved(phone="15551234567", code="123456")
    (received,) = gateway.received
    assert (received.method, received.target) == ("POST", "/v2/Services/VA1/VerificationCheck")
    assert received.headers["Authorization"] == "Basic QUMyOmh1bnRlcjI="
    assert received.form == {"To": "+15551234567", "Code": "123456"}


@pytest.mark.parametrize(
    ("document", "status", "warnings"),
    [
        ({"status": "pending", "valid": False}, 200, 0),
        ({"status": "approved", "valid": False}, 200, 0),
        ({"status": "approved", "valid": "true"}, 200, 0),
        ({"status": "approved"}, 200, 0),
        ({"valid": True}, 200, 0),
        ([], 200, 0),
        ({"status": "approved", "valid": True}, 404, 0),
        ({"status": "approved", "valid": True}, 202, 1),
        ({"message": "+15551234567"}, 429, 1),
        ({}, 500, 1),
    ],
)
def test_other_results_are_rejected(
    gateway: MockedServer,
    verifier: PhoneVerifier,
    caplog: pytest.LogCaptureFixture,
    document: Any,
    status: int,
    warnings: int,
) -> None:
    caplog.set_level(logging.WARNING)
    gateway.respond(in_json(document, status=status))
    assert not verifier.is_approved(phone="15551234567", code="123456")
    assert len(caplog.records) == warnings
    assert "15551234567" not in str([vars(record) for record in caplog.records])


@pytest.mark.parametrize(
    ("response", "timeout_seconds"), [(Response(hang=True), 1), (Response(body=b"<html>"), 60), (Response(raw=b""), 60)]
)
def test_an_unverifiable_code_is_rejected(
    gateway_peer: HttpPeer,
    verifier: PhoneVerifier,
    use_gateway: UseGateway,
    caplog: pytest.LogCaptureFixture,
    response: Response,
    timeout_seconds: float,
) -> None:
    use_gateway("twilio_verify", timeout_seconds=timeout_seconds)
    caplog.set_level(logging.WARNING)
    gateway_peer.respond(response)
    assert not verifier.is_approved(phone="15551234567", code="123456")
    (record,) = caplog.records
    assert vars(record)["event"] == "sms.verification"
    assert vars(record)["error"].startswith("twilio_verify error: ")


def test_without_credentials_no_request_is_sent(
    gateway: MockedServer, verifier: PhoneVerifier, use_gateway: UseGateway
) -> None:
    use_gateway("twilio_verify", account_sid="")
    assert not verifier.is_approved(phone="15551234567", code="123456")
    assert gateway.received == []
