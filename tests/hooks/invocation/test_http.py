"""Calls of hooks over HTTP: requests, attempts, accepted responses and failures."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from authsvc.conf.sections.hooks import Hook
from authsvc.conf.types import Secret
from hooks.errors import HookFailed, HookRejection
from hooks.invocation.invocation import NO_RESPONSE, invoke
from tests import ports
from tests.fakes.http_peer import HttpPeer, Response, in_json, redirect
from tests.hooks.conftest import SetHook

pytestmark = pytest.mark.django_db

HOOK = Hook.MFA_VERIFICATION_ATTEMPT
PAYLOAD = {"user_id": "3f0c9a5e-1111-4222-8333-444455556666", "valid": True}
SECRET = Secret("v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
JSON = {"Content-Type": "application/json"}


def failure(set_hook: SetHook, url: str, **settings: Any) -> HookFailed | HookRejection:
    set_hook(HOOK, uri=url, **settings)
    with pytest.raises((HookFailed, HookRejection)) as caught:
        invoke(HOOK, PAYLOAD)
    return caught.value  # type: ignore[return-value]


def described(error: HookFailed | HookRejection) -> tuple[int, str, str]:
    return error.status, error.error_code, error.message


def test_request(set_hook: SetHook, peer: HttpPeer) -> None:
    set_hook(HOOK, uri=f"{peer.url}/hook?team=1", secrets=(SECRET,))
    assert invoke(HOOK, PAYLOAD, address="203.0.113.7") == {}
    [request] = peer.received
    assert (request.method, request.target) == ("POST", "/hook?team=1")
    body = request.json()
    metadata = body.pop("metadata")
    assert body == PAYLOAD
    assert list(request.json()) == ["metadata", "user_id", "valid"]
    assert UUID(metadata["uuid"]).version == 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", metadata["time"])
    assert (metadata["name"], metadata["ip_address"]) == ("mfa-verification", "203.0.113.7")
    headers = request.headers
    assert headers["Content-Type"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("authsvc/")
    assert UUID(headers["webhook-id"]).version == 4
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    Webhook(SECRET.reveal().removeprefix("v1,")).verify(request.body, dict(headers))
    assert not {"Cookie", "Authorization"} & set(headers)


def test_unsigned_request_has_no_signature_header(set_hook: SetHook, peer: HttpPeer) -> None:
    set_hook(HOOK, uri=peer.url)
    invoke(HOOK, PAYLOAD)
    assert "webhook-signature" not in peer.received[0].headers
    assert "ip_address" not in peer.received[0].json()["metadata"]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Response(status=204), NO_RESPONSE),
        (in_json({"decision": "continue"}, status=202), {"decision": "continue"}),
        (Response(headers={"Content-Type": "application/json; charset=utf-8"}, body=b"{}"), {}),
        (Response(headers={"Content-Type": "Application/JSON"}, body=b"{}"), {}),
        (in_json(None), None),
        (in_json({"error": None, "extra": 1}), {"error": None, "extra": 1}),
        (in_json({"error": {}}), {"error": {}}),
        (in_json({"error": {"http_code": 403}}), {"error": {"http_code": 403}}),
        (Response(headers=JSON, body=b'"'.join([b'{"a":', b"x" * (204_800 - 8), b"}"])), ...),
    ],
)
def test_accepted_responses(set_hook: SetHook, peer: HttpPeer, response: Response, expected: object) -> None:
    set_hook(HOOK, uri=peer.url)
    peer.respond(response)
    received: Any = invoke(HOOK, PAYLOAD)
    assert expected is ... or received == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Response(status=201), (500, "unexpected_failure", "Unexpected status code returned from hook: 201")),
        (
            in_json({"error": {"message": "no", "http_code": 403}}, status=418),
            (500, "unexpected_failure", "Unexpected status code returned from hook: 418"),
        ),
        (redirect("/"), (500, "unexpected_failure", "Unexpected status code returned from hook: 302")),
        (Response(status=400), (500, "unexpected_failure", "Invalid payload sent to hook")),
        (Response(status=401), (500, "unexpected_failure", "Hook requires authorization token")),
        (Response(status=503), (500, "unexpected_failure", "Service currently unavailable due to hook")),
        (
            Response(body=b"{}"),
            (400, "hook_payload_invalid_content_type", "Invalid Content-Type: Missing Content-Type header"),
        ),
        (
            Response(headers={"Content-Type": ";/"}, body=b"{}"),
            (400, "hook_payload_invalid_content_type", "Invalid Content-Type header: malformed media type"),
        ),
        (
            Response(headers={"Content-Type": "text/plain"}, body=b"{}"),
            (
                400,
                "hook_payload_invalid_content_type",
                "Invalid JSON response. Received content-type: text/plain",
            ),
        ),
        (
            Response(headers=JSON, body=b" " * 204_801),
            (422, "hook_payload_over_size_limit", "Payload size exceeded size limit of 204800 bytes"),
        ),
        # Status and type come before the size.
        (
            Response(status=404, headers=JSON, body=b" " * 204_801),
            (500, "unexpected_failure", "Unexpected status code returned from hook: 404"),
        ),
        (
            Response(headers={"Content-Type": "text/html"}, body=b" " * 204_801),
            (400, "hook_payload_invalid_content_type", "Invalid JSON response. Received content-type: text/html"),
        ),
        *(
            (Response(headers=JSON, body=body), (500, "unexpected_failure", "Error unmarshaling JSON output."))
            for body in (b"12345", b"", b"[]", b"{", b'{"error":"x"}', b'{"error":{"message":1}}', b"\xff")
        ),
    ],
)
def test_failures(set_hook: SetHook, peer: HttpPeer, response: Response, expected: tuple[int, str, str]) -> None:
    peer.respond(response)
    error = failure(set_hook, peer.url)
    assert isinstance(error, HookFailed)
    assert described(error) == expected
    assert len(peer.received) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "no"}, (500, "unexpected_failure", "no")),
        ({"message": "no", "http_code": 403}, (403, "unknown", "no")),
        ({"message": "no", "http_code": 200}, (500, "unexpected_failure", "no")),
        ({"message": "no", "http_code": 500}, (500, "unexpected_failure", "no")),
    ],
)
def test_rejections(
    set_hook: SetHook, peer: HttpPeer, error: Mapping[str, Any], expected: tuple[int, str, str]
) -> None:
    peer.respond(in_json({"error": error}))
    raised = failure(set_hook, peer.url)
    assert isinstance(raised, HookRejection)
    assert described(raised) == expected


def test_retry_after_repeats_at_once_with_the_same_id(set_hook: SetHook, peer: HttpPeer) -> None:
    peer.respond(Response(status=429, headers={"Retry-After": "120"}), in_json({}))
    set_hook(HOOK, uri=peer.url, secrets=(SECRET,))
    assert invoke(HOOK, PAYLOAD) == {}
    first, second = peer.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_three_attempts_of_an_unavailable_hook(set_hook: SetHook, peer: HttpPeer) -> None:
    peer.respond(Response(status=429, headers={"Retry-After": "120"}))
    error = failure(set_hook, peer.url)
    assert described(error) == (500, "unexpected_failure", "Service currently unavailable due to hook")
    assert len(peer.received) == 3


def test_three_attempts_to_connect(set_hook: SetHook) -> None:
    begun = time.monotonic()
    error = failure(set_hook, f"http://127.0.0.1:{ports.free_port()}/")
    assert described(error) == (
        422,
        "hook_timeout_after_retry",
        "Failed to reach hook after maximum retries",
    )
    assert time.monotonic() - begun >= 4


def test_time_limit_covers_pauses(set_hook: SetHook) -> None:
    url = f"http://127.0.0.1:{ports.free_port()}/"
    error = failure(set_hook, url, timeout=timedelta(milliseconds=100))
    assert described(error) == (
        422,
        "hook_timeout",
        "Failed to reach hook within maximum time of 0.100000 seconds",
    )


@pytest.mark.parametrize("response", [Response(hang=True), Response(drip=0.2, headers=JSON, body=b"{}" * 100)], ids=str)
def test_slow_responses(set_hook: SetHook, peer: HttpPeer, response: Response) -> None:
    peer.respond(response)
    error = failure(set_hook, peer.url, timeout=timedelta(milliseconds=500))
    assert described(error) == (
        422,
        "hook_timeout",
        "Failed to reach hook within maximum time of 0.500000 seconds",
    )
    assert len(peer.received) == 1


def test_connection_lost_in_the_body(set_hook: SetHook, peer: HttpPeer) -> None:
    peer.respond(
        Response(raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", close=True)
    )
    error = failure(set_hook, peer.url)
    assert described(error) == (500, "unexpected_failure", f"Error running hook URI: {peer.url}")
    assert len(peer.received) == 1


def test_the_log_names_the_cause_of_a_failure(set_hook: SetHook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    failure(set_hook, f"http://127.0.0.1:{ports.free_port()}/", timeout=timedelta(seconds=1))
    attempt, call = (vars(record) for record in caplog.records if record.name.startswith("hooks."))
    assert (attempt["message"], attempt["error"]) == ("invocation attempt failed", "Connection refused")
    assert call["message"] == "Hook errored out"
    assert call["error"] == "Failed to reach hook within maximum time of 1.000000 seconds"


def test_the_log_does_not_contain_the_message_of_a_refusal(
    set_hook: SetHook, peer: HttpPeer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    peer.respond(in_json({"error": {"message": "secret-answer", "http_code": 403}}))
    failure(set_hook, peer.url)
    assert "Hook errored out" in caplog.text
    assert "secret-answer" not in json.dumps([record.__dict__ for record in caplog.records], default=str)


def test_logs_contain_no_payload(set_hook: SetHook, peer: HttpPeer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    peer.respond(in_json({"answer": "secret-answer"}))
    set_hook(HOOK, uri=peer.url, secrets=(SECRET,))
    invoke(HOOK, {"sms": {"otp": "secret-code"}})
    text = json.dumps([record.__dict__ for record in caplog.records], default=str)
    assert "Hook ran successfully" in text
    assert not re.search("secret-answer|secret-code|AAECAwQF", text)
