"""`manage.py doctor` checks the credentials of an SMS gateway and sends no message."""

from __future__ import annotations

import pytest

from authsvc.diagnostics.registry import CheckOutcome, CheckResult, DiagnosticContext
from mailer import diagnostics
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.mailer.sms.conftest import UseGateway


def run_diagnostic() -> CheckResult:
    [result] = diagnostics.SmsDiagnostic().run(DiagnosticContext(public_url=""))
    return result


@pytest.mark.parametrize(
    ("provider", "method", "path"),
    [
        ("twilio", "GET", "/2010-04-01/Accounts/AC1.json"),
        ("twilio_verify", "GET", "/v2/Services/VA1"),
        ("messagebird", "GET", "/balance"),
        ("textlocal", "POST", "/balance"),
        ("vonage", "GET", "/account/get-balance"),
    ],
)
def test_credentials_are_checked_without_sending(
    provider: str, method: str, path: str, gateway: MockedServer, use_gateway: UseGateway
) -> None:
    use_gateway(provider)
    gateway.respond(in_json({"status": "success"}))
    assert run_diagnostic().outcome is CheckOutcome.OK
    [request] = gateway.received
    assert (request.method, request.path) == (method, path)

    rejection = in_json(
        {"status": "failure", "errors": [{"message": "no"}]}, status=200 if provider == "textlocal" else 401
    )
    gateway.respond(rejection)
    result = run_diagnostic()
    assert result.outcome is CheckOutcome.FAILURE
    assert "hunter2" not in result.message + result.remedy


@pytest.mark.parametrize(("phones", "expected"), [(True, CheckOutcome.FAILURE), (False, CheckOutcome.UNUSED)])
def test_a_missing_gateway_is_reported_if_phones_are_enabled(
    phones: bool, expected: CheckOutcome, auth_config: ChangeConfig
) -> None:
    auth_config(signup={"phone_enabled": phones}, sms={"provider": ""})
    assert run_diagnostic().outcome is expected
