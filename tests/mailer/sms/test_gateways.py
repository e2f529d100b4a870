"""Each SMS gateway: its requests, and the results of its responses."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from responses import RequestsMock

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer import sms
from mailer.sms import twilio
from tests import ports
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, MockedServer, Response, in_json
from tests.mailer.sms.conftest import CREDENTIALS, UseGateway, send

PROVIDERS = list(CREDENTIALS)
BASIC_AC1 = "Basic QUMxOmh1bnRlcjI="
BASIC_AC2 = "Basic QUMyOmh1bnRlcjI="

SENT: dict[str, tuple[str, str | None, dict[str, str]]] = {
    "twilio": (
        "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages.json",
        BASIC_AC1,
        {"To": "+15551234567", "Channel": "sms", "From": "MG1", "Body": "Your code is 123456"},
    ),
    "twilio_verify": (
        "https://verify.twilio.com/v2/Services/VA1/Verifications",
        BASIC_AC2,
        {"To": "+15551234567", "Channel": "sms"},
    ),
    "messagebird": (
        "https://rest.messagebird.com/messages",
        "AccessKey hunter2",
        {
            "originator": "Me",
            "body": "Your code is 123456",
            "recipients": "15551234567",
            "type": "sms",
            "datacoding": "unicode",
        },
    ),
    "textlocal": (
        "https://api.textlocal.in/send",
        None,
        {"sender": "ME", "apikey": "hunter2", "message": "Your code is 123456", "numbers": "15551234567"},
    ),
    "vonage": (
        "https://rest.nexmo.com/sms/json",
        None,
        {
            "from": "Me",
            "to": "15551234567",
            "text": "Your code is 123456",
            "api_key": "key",
            "api_secret": "hunter2",
        },
    ),
}
TAKEN: dict[str, Any] = {
    "twilio": {"sid": "SM1", "status": "queued", "error_code": None},
    "twilio_verify": {"sid": "VE1", "status": "pending"},
    "messagebird": {"id": "mb1", "recipients": {"totalSentCount": 1}},
    "textlocal": {"status": "success", "messages": [{"id": 1151895224}]},
    "vonage": {"message-count": "1", "messages": [{"status": "0", "message-id": "0A1"}]},
}
NAMES = {"twilio": "SM1", "twilio_verify": "VE1", "messagebird": "mb1", "textlocal": "1151895224", "vonage": "0A1"}


def send_failure(**options: str) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as caught:
        send(**options)
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_message_is_sent_as_a_form_and_returns_its_id(
    gateway: MockedServer, mocked_requests: RequestsMock, use_gateway: UseGateway, provider: str
) -> None:
    use_gateway(provider)
    gateway.respond(in_json(TAKEN[provider], status=201))
    assert send() == NAMES[provider]
    (received,) = gateway.received
    url, authorization, form = SENT[provider]
    assert (received.method, mocked_requests.calls[0].request.url) == ("POST", url)
    assert received.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert received.headers["Authorization"] == authorization
    assert received.form == form


@pytest.mark.parametrize(
    ("provider", "status", "document"),
    [
        ("twilio", 200, {"sid": "SM1"}),
        ("textlocal", 500, {"status": "success", "messages": [{"id": "1"}]}),
        ("textlocal", 200, {"status": "success"}),
        ("textlocal", 200, {"status": "success", "messages": []}),
        ("vonage", 503, {"messages": [{"status": "0"}]}),
        ("messagebird", 500, {"id": "a", "recipients": {"totalSentCount": 2}}),
    ],
)
def test_other_success_responses_are_accepted(
    gateway: MockedServer, use_gateway: UseGateway, provider: str, status: int, document: Any
) -> None:
    use_gateway(provider)
    gateway.respond(in_json(document, status=status))
    assert isinstance(send(), str)


TEMPORARY, PERMANENT = False, True


@pytest.mark.parametrize(
    ("provider", "status", "document", "text", "permanent"),
    [
        (
            "twilio",
            500,
            {"code": 500, "message": "Internal server error", "more_info": "error"},
            "Internal server error More information: error",
            TEMPORARY,
        ),
        (
            "twilio",
            400,
            {"code": 21211, "message": "Invalid 'To' Phone Number", "more_info": "https://twilio.example/21211"},
            "Invalid 'To' Phone Number More information: https://twilio.example/21211",
            PERMANENT,
        ),
        ("twilio", 429, {"message": "Too many", "more_info": "x"}, "Too many More information: x", TEMPORARY),
        ("twilio", 401, {"message": "Authenticate", "more_info": "x"}, "Authenticate More information: x", TEMPORARY),
        ("twilio", 202, {}, "twilio error: status 202", TEMPORARY),
        (
            "twilio",
            200,
            {"status": "failed", "error_message": "failed to send sms", "error_code": "401", "sid": "abcdef"},
            "twilio error: failed to send sms 401 for message abcdef",
            TEMPORARY,
        ),
        (
            "twilio",
            201,
            {"status": "undelivered", "error_message": "no route", "error_code": 30003, "sid": "abcdef"},
            "twilio error: no route 30003 for message abcdef",
            TEMPORARY,
        ),
        (
            "twilio",
            201,
            {"status": "failed", "error_message": "no route", "error_code": None, "sid": "abcdef"},
            "twilio error: no route for message abcdef",
            TEMPORARY,
        ),
        (
            "twilio_verify",
            404,
            {"message": "The service was not found", "more_info": "x"},
            "The service was not found More information: x",
            PERMANENT,
        ),
        ("twilio_verify", 503, {"message": "Busy", "more_info": "x"}, "Busy More information: x", TEMPORARY),
        ("twilio_verify", 429, {"message": "Max send attempts"}, "Max send attempts More information:", TEMPORARY),
        (
            "messagebird",
            422,
            {"errors": [{"code": 9, "description": "no (correct) recipients found"}]},
            "no (correct) recipients found",
            PERMANENT,
        ),
        ("messagebird", 401, {"errors": [{"description": "Request not allowed"}]}, "Request not allowed", TEMPORARY),
        ("messagebird", 400, {"errors": []}, "messagebird error: status 400", PERMANENT),
        (
            "messagebird",
            200,
            {"recipients": {"totalSentCount": 0}},
            "messagebird error: total sent count is 0",
            TEMPORARY,
        ),
        ("messagebird", 429, {}, "messagebird error: total sent count is 0", TEMPORARY),
        ("messagebird", 500, {}, "messagebird error: total sent count is 0", TEMPORARY),
        (
            "textlocal",
            200,
            {"status": "failure", "errors": [{"code": 80, "message": "Invalid template"}]},
            "textlocal error: Invalid template (code: 80) template message: Your code is 123456",
            PERMANENT,
        ),
        (
            "textlocal",
            200,
            {"status": "failure", "errors": [{"code": 3, "message": "Invalid login"}], "messages": [{"id": "m1"}]},
            "textlocal error: Invalid login (code: 3) message m1",
            TEMPORARY,
        ),
        (
            "textlocal",
            200,
            {"status": "failure", "errors": [{"code": 51, "message": "No valid numbers specified"}], "messages": []},
            "textlocal error: No valid numbers specified (code: 51) message",
            PERMANENT,
        ),
        ("textlocal", 429, {"status": "failure", "errors": []}, "textlocal error: status 429", TEMPORARY),
        ("textlocal", 500, {}, "textlocal error: status 500", TEMPORARY),
        (
            "vonage",
            200,
            {"messages": [{"status": "4", "error-text": "Bad Credentials", "message-id": "a1"}]},
            "vonage error: Bad Credentials (status: 4) for message a1",
            TEMPORARY,
        ),
        (
            "vonage",
            200,
            {"messages": [{"status": "1", "error-text": "Throughput Rate Exceeded", "message-id": "a1"}]},
            "vonage error: Throughput Rate Exceeded (status: 1) for message a1",
            TEMPORARY,
        ),
        (
            "vonage",
            200,
            {"messages": [{"status": "6", "error-text": "Unroutable message", "message-id": "a1"}]},
            "vonage error: Unroutable message (status: 6) for message a1",
            PERMANENT,
        ),
        ("vonage", 200, {"messages": []}, "vonage error: Internal Error", TEMPORARY),
        ("vonage", 429, {}, "vonage error: Internal Error", TEMPORARY),
        ("vonage", 500, {"messages": None}, "vonage error: Internal Error", TEMPORARY),
    ],
)
def test_an_error_contains_the_message_of_the_gateway(
    gateway: MockedServer,
    use_gateway: UseGateway,
    provider: str,
    status: int,
    document: Any,
    text: str,
    permanent: bool,
) -> None:
    use_gateway(provider)
    gateway.respond(in_json(document, status=status))
    failure = send_failure()
    assert (str(failure), failure.permanent) == (text, permanent)
    assert len(gateway.received) == 1


ODD: list[Any] = [
    [],
    {},
    None,
    7,
    "ok",
    {"errors": None},
    {"errors": [None]},
    {"errors": {}},
    {"messages": [[]]},
    {"messages": 1},
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [200, 400, 422, 500])
def test_unexpected_json_is_an_error(
    gateway: MockedServer, use_gateway: UseGateway, provider: str, status: int
) -> None:
    use_gateway(provider)
    for document in ODD:
        gateway.respond(in_json(document, status=status))
        if status == 200 and provider.startswith("twilio"):
            assert send() == ""
        else:
            assert str(send_failure())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("response", "text", "permanent"),
    [
        pytest.param(Response(body=b"<html>"), "the response of status 200 is not JSON", TEMPORARY, id="garbage"),
        pytest.param(
            Response(status=502, body=b"<html>"), "the response of status 502 is not JSON", TEMPORARY, id="proxy"
        ),
        pytest.param(
            Response(status=404, body=b"<html>"), "the response of status 404 is not JSON", PERMANENT, id="not found"
        ),
        pytest.param(Response(), "the response of status 200 is not JSON", TEMPORARY, id="nothing"),
        pytest.param(Response(body=b"[" * 10_000_000), "the response is too long", TEMPORARY, id="long"),
        pytest.param(
            Response(status=302, headers={"Location": "/other"}),
            "the response of status 302 is not JSON",
            TEMPORARY,
            id="redirect",
        ),
    ],
)
def test_invalid_responses_are_reported_and_retryable(
    gateway: MockedServer, use_gateway: UseGateway, provider: str, response: Response, text: str, permanent: bool
) -> None:
    use_gateway(provider)
    gateway.respond(response)
    failure = send_failure()
    assert (str(failure), failure.permanent) == (f"{provider} error: {text}", permanent)
    assert len(gateway.received) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("response", "text"),
    [
        pytest.param(Response(hang=True), "timed out", id="hang"),
        pytest.param(Response(drip=0.2, body=b"{}"), "timed out", id="drip"),
        pytest.param(Response(raw=b""), "RemoteDisconnected", id="close"),
        pytest.param(Response(raw=b"SMTP 220 ready\r\n"), "BadStatusLine", id="not http"),
    ],
)
def test_broken_connections_are_reported_and_retryable(
    gateway_peer: HttpPeer, use_gateway: UseGateway, provider: str, response: Response, text: str
) -> None:
    use_gateway(provider, timeout_seconds=0.5 if text == "timed out" else 60)
    gateway_peer.respond(response)
    failure = send_failure()
    assert (str(failure), failure.permanent) == (f"{provider} error: {text}", TEMPORARY)
    gateway_peer.wait_for_requests(1)
    assert len(gateway_peer.received) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_unreachable_gateway_is_reported(
    use_gateway: UseGateway, provider: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    use_gateway(provider)
    monkeypatch.setattr(sms.GATEWAYS[provider], "origin", f"http://127.0.0.1:{ports.free_port()}")
    failure = send_failure()
    assert (str(failure), failure.permanent) == (f"{provider} error: Connection refused", TEMPORARY)
    logged = str([vars(record) for record in caplog.records if record.name.startswith(("authsvc", "mailer"))])
    assert "hunter2" not in logged
    assert "123456" not in logged


@pytest.mark.parametrize(
    ("provider", "name"), [("messagebird", "Messagebird"), ("textlocal", "TextLocal"), ("vonage", "Vonage")]
)
def test_whatsapp_is_rejected_if_unsupported(
    gateway: MockedServer, use_gateway: UseGateway, provider: str, name: str
) -> None:
    use_gateway(provider)
    failure = send_failure(channel="whatsapp")
    assert (str(failure), failure.permanent) == (f'channel type "whatsapp" is not supported for {name}', PERMANENT)
    assert gateway.received == []


@pytest.mark.parametrize(
    ("sender", "from_"),
    [
        ("MG1", "MG1"),
        ("+15550001111", "whatsapp:+15550001111"),
        ("15550001111", "whatsapp:15550001111"),
        ("05550001111", "05550001111"),
        ("1" * 16, "1" * 16),
    ],
)
def test_twilio_sends_over_whatsapp(gateway: MockedServer, use_gateway: UseGateway, sender: str, from_: str) -> None:
    use_gateway("twilio", message_service_sid=sender)
    gateway.respond(in_json(TAKEN["twilio"]))
    send(channel="whatsapp")
    assert gateway.received[0].form == {
        "To": "whatsapp:+15551234567",
        "Channel": "whatsapp",
        "From": from_,
        "Body": "Your code is 123456",
    }


def test_twilio_sends_an_approved_template_over_whatsapp(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio", content_sid="HX1")
    gateway.respond(in_json(TAKEN["twilio"]))
    send(channel="whatsapp")
    send(channel="sms")
    whatsapp, text = (received.form for received in gateway.received)
    assert whatsapp["ContentSid"] == "HX1"
    assert whatsapp["ContentVariables"] == '{"1": "123456"}'
    assert "Body" not in whatsapp
    assert text == SENT["twilio"][2]


def test_twilio_verify_sends_over_whatsapp(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio_verify")
    gateway.respond(in_json(TAKEN["twilio_verify"]))
    send(channel="whatsapp")
    assert gateway.received[0].form == {"To": "+15551234567", "Channel": "whatsapp"}


@pytest.mark.parametrize(("body", "kind"), [("Your code is 1", None), ("Votre clé: 1", "unicode"), ("码 1", "unicode")])
def test_vonage_marks_unicode_texts(
    gateway: MockedServer, use_gateway: UseGateway, body: str, kind: str | None
) -> None:
    use_gateway("vonage")
    gateway.respond(in_json(TAKEN["vonage"]))
    send(body=body)
    assert (gateway.received[0].form["text"], gateway.received[0].form.get("type")) == (body, kind)


def test_account_ids_are_escaped_in_paths(gateway: MockedServer, use_gateway: UseGateway) -> None:
    use_gateway("twilio", account_sid="AC1/../x?y")
    gateway.respond(in_json(TAKEN["twilio"]))
    send()
    assert gateway.received[0].target == "/2010-04-01/Accounts/AC1%2F..%2Fx%3Fy/Messages.json"


def test_every_provider_of_the_settings_has_a_gateway() -> None:
    assert set(sms.GATEWAYS) == conf.SMS_PROVIDERS


def test_without_complete_credentials_there_is_no_gateway(use_gateway: UseGateway, auth_config: ChangeConfig) -> None:
    use_gateway("twilio")
    assert isinstance(sms.configured_gateway(), twilio.Twilio)
    use_gateway("twilio", account_sid="")
    assert sms.configured_gateway() is None
    auth_config(sms={"provider": ""})
    assert sms.configured_gateway() is None
