"""Phone sign-in through a gateway: from the API request to the gateway request, and back with the code."""

from __future__ import annotations

from typing import Any

import pytest

from authsvc import jobs
from authsvc.security import crypto
from tests.conftest import Api, ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.mailer.conftest import Queue
from tests.mailer.sms.conftest import UseGateway
from tests.timeouts import wait_until
from tokens.models import OneTimeToken

pytestmark = pytest.mark.django_db

NUMBER = "15551234567"


@pytest.fixture(autouse=True)
def _with_phones(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})


def sign_up(api: Api, **options: str) -> Any:
    return api.post("/signup", {"phone": "+1 555 1234567", "password": "correct horse", **options})


@pytest.mark.django_db(transaction=True)
def test_a_sign_up_sends_a_code_that_signs_in(
    queue: Queue, api: Api, gateway: MockedServer, use_gateway: UseGateway, worker: jobs.Worker
) -> None:
    use_gateway("twilio")
    gateway.respond(in_json({"sid": "SM1", "status": "queued"}, status=201))
    assert sign_up(api).status_code == 200
    wait_until(lambda: gateway.received and not queue.jobs(), "a delivery")
    (received,) = gateway.received
    assert received.path == "/2010-04-01/Accounts/AC1/Messages.json"
    code = received.form.pop("Body").removeprefix("Your code is ")
    assert received.form["To"] == f"+{NUMBER}"
    assert OneTimeToken.objects.get().token_hash == crypto.hash_code(NUMBER, code)
    response = api.post("/verify", {"type": "sms", "phone": NUMBER, "token": code})
    assert response.json()["user"]["phone"] == NUMBER


@pytest.mark.parametrize("path", ["/signup", "/otp"])
def test_without_credentials_an_sms_is_rejected(
    queue: Queue, api: Api, gateway: MockedServer, use_gateway: UseGateway, path: str
) -> None:
    use_gateway("twilio", account_sid="")
    response = api.post(path, {"phone": NUMBER, "password": "correct horse"})
    assert (response.status_code, response.json()["msg"]) == (500, "Unable to get SMS provider")
    assert queue.jobs() == []


def test_whatsapp_is_rejected_by_gateways_without_it(queue: Queue, api: Api, use_gateway: UseGateway) -> None:
    use_gateway("vonage")
    response = sign_up(api, channel="whatsapp")
    assert (response.status_code, response.json()["error_code"]) == (400, "validation_failed")
    assert queue.jobs() == []


def test_a_code_that_the_gateway_does_not_approve_is_rejected(
    queue: Queue, api: Api, gateway: MockedServer, use_gateway: UseGateway
) -> None:
    use_gateway("twilio_verify")
    assert sign_up(api).status_code == 200
    gateway.respond(in_json({"status": "pending", "valid": False}), in_json({"status": "approved", "valid": True}))
    rejected, accepted = (api.post("/verify", {"type": "sms", "phone": NUMBER, "token": "123456"}) for _ in range(2))
    assert (rejected.status_code, rejected.json()["error_code"]) == (403, "otp_expired")
    assert accepted.status_code == 200
    assert [received.path for received in gateway.received] == ["/v2/Services/VA1/VerificationCheck"] * 2
