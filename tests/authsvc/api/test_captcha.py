"""The captcha: requests that need one, the order of checks, the call of the service and its results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import jwt
import pytest
from django.conf import settings
from django.utils import timezone
from responses import RequestsMock

from accounts.models import User
from authsvc.api import captcha
from authsvc.conf import AuthConfig, Secret
from authsvc.models import RateLimit
from tests.conftest import Api
from tests.factories import PASSWORD, make_session, make_user
from tests.fakes.http_peer import FakeServer, HttpPeer, MockedServer, Response, in_json
from tests.observations import assert_error, table_contents
from tokens.models import Session

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
SECRET = "0x-captcha-secret"
SOLVED = {"gotrue_meta_security": {"captcha_token": " P1_solved "}}
PASSED = in_json({"success": True, "challenge_ts": "2026-01-01T00:00:00Z", "hostname": "x"})
MISSING = "captcha protection: request disallowed (no captcha_token found)"
FAILED = "captcha verification process failed"

PROTECTED: list[tuple[str, dict[str, Any]]] = [
    ("/signup", {"email": EMAIL, "password": PASSWORD}),
    ("/recover", {"email": EMAIL}),
    ("/resend", {"type": "signup", "email": EMAIL}),
    ("/magiclink", {"email": EMAIL}),
    ("/otp", {"email": EMAIL}),
]
PASSWORD_GRANT = "/token?grant_type=password"
LIMITED_FIRST = {"/recover": "Recover", "/resend": "Resend", "/magiclink": "MagicLink", "/otp": "Otp"}


@pytest.fixture
def service(auth_config: ChangeConfig, mocked_requests: RequestsMock) -> MockedServer:
    """The enabled captcha service, which accepts every token by default."""
    auth_config(captcha={"enabled": True, "secret": Secret(SECRET), "timeout": timedelta(seconds=60)})
    server = MockedServer(mocked_requests)
    server.respond(PASSED)
    return server


@pytest.fixture
def service_peer(auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """The same on loopback, for slow and malformed responses."""
    auth_config(captcha={"enabled": True, "secret": Secret(SECRET), "timeout": timedelta(seconds=0.5)})
    with HttpPeer() as peer:
        monkeypatch.setitem(captcha._SERVICES, "hcaptcha", f"{peer.url}/siteverify")
        yield peer


def use_up(bucket: str) -> None:
    at = timezone.now()
    RateLimit.objects.create(bucket=bucket, key="127.0.0.1", tokens=0, created_at=at, updated_at=at)


def service_token(*, role: str = "service_role", secret: str = "", **claims: Any) -> str:
    return jwt.encode({"role": role, **claims}, secret or settings.AUTH.jwt.secret.reveal(), algorithm="HS256")


# Endpoints that need a captcha


@pytest.mark.parametrize(("path", "body"), PROTECTED)
@pytest.mark.parametrize("security", [None, {}, *({"captcha_token": token} for token in (None, "", " \t"))])
def test_requests_without_a_solved_captcha_change_nothing(
    api: Api, service: MockedServer, path: str, body: dict[str, Any], security: dict[str, Any] | None
) -> None:
    before = table_contents()

    response = api.post(path, {**body, "gotrue_meta_security": security})

    assert_error(response, 400, "captcha_failed", MISSING)
    assert service.received == []
    assert table_contents() == before


@pytest.mark.parametrize(("path", "body"), PROTECTED)
def test_a_solved_captcha_keeps_the_request_body(
    api: Api, service: MockedServer, path: str, body: dict[str, Any]
) -> None:
    response = api.post(path, {**body, **SOLVED})

    assert response.status_code == 200, response.content
    assert len(service.received) == 1


def test_a_password_grant_needs_a_captcha(api: Api, service: MockedServer) -> None:
    user = make_user()
    body = {"email": user.email, "password": PASSWORD}

    assert_error(api.post(PASSWORD_GRANT, body), 400, "captcha_failed", MISSING)
    assert not Session.objects.exists()
    assert api.post(PASSWORD_GRANT, {**body, **SOLVED}).status_code == 200
    assert len(service.received) == 1


def test_a_refresh_needs_no_captcha(api: Api, service: MockedServer) -> None:
    token = make_session().refresh_token
    assert api.post("/token?grant_type=refresh_token", {"refresh_token": token}).status_code == 200
    assert service.received == []


@pytest.mark.parametrize(
    ("grant_type", "status", "error_code"),
    [
        ("refresh_token", 400, "validation_failed"),
        ("pkce", 400, "validation_failed"),
        ("id_token", 400, "invalid request"),
        ("password", 400, "captcha_failed"),
        ("web3", 400, "captcha_failed"),
        ("Refresh_Token", 400, "captcha_failed"),
        ("nonsense", 400, "captcha_failed"),
        ("", 400, "captcha_failed"),
    ],
)
def test_exempt_grants_are_documented(
    api: Api, service: MockedServer, grant_type: str, status: int, error_code: str
) -> None:
    response = api.post(f"/token?grant_type={grant_type}", {})
    document = response.json()
    assert (response.status_code, document.get("error_code", document.get("error"))) == (status, error_code)
    assert service.received == []


def test_an_unknown_grant_is_reported_after_the_captcha(api: Api, service: MockedServer) -> None:
    assert_error(api.post("/token?grant_type=x", SOLVED), 400, "invalid_credentials", "unsupported_grant_type")
    assert len(service.received) == 1
    assert not RateLimit.objects.filter(bucket="Token").exists()


@pytest.mark.parametrize("path", ["/verify", "/logout", "/user"])
def test_other_endpoints_need_no_captcha(api: Api, service: MockedServer, path: str) -> None:
    assert api.post(path, {}).json()["error_code"] != "captcha_failed"
    assert service.received == []


@pytest.mark.parametrize("token_value", [None, 5, "x", {"captcha_token": 7}])
def test_disabled_captchas_ignore_the_token(
    api: Api, service: MockedServer, auth_config: ChangeConfig, token_value: object
) -> None:
    auth_config(captcha={"enabled": False})
    body = {"email": EMAIL, "password": PASSWORD, "gotrue_meta_security": token_value}
    assert api.post("/signup", body).status_code == 200
    assert service.received == []


# Order of the checks


@pytest.mark.parametrize(("path", "bucket"), LIMITED_FIRST.items())
def test_the_rate_limit_precedes_the_captcha(api: Api, service: MockedServer, path: str, bucket: str) -> None:
    use_up(bucket)
    response = api.post(path, {"email": EMAIL, "type": "signup", **SOLVED})
    assert_error(response, 429, "over_request_rate_limit", "Request rate limit reached")
    assert service.received == []


@pytest.mark.parametrize(("path", "bucket"), [("/signup", "Signups"), (PASSWORD_GRANT, "Token")])
def test_the_captcha_precedes_the_rate_limit_elsewhere(api: Api, service: MockedServer, path: str, bucket: str) -> None:
    use_up(bucket)
    body = {"email": EMAIL, "password": PASSWORD}
    assert_error(api.post(path, body), 400, "captcha_failed", MISSING)
    assert_error(api.post(path, {**body, **SOLVED}), 429, "over_request_rate_limit", "Request rate limit reached")


def test_sign_up_checks_captcha_then_body_then_limit(api: Api, service: MockedServer) -> None:
    use_up("Signups")
    assert_error(api.post("/signup", {"email": 1}), 400, "captcha_failed", MISSING)
    assert api.post("/signup", {"email": 1, **SOLVED}).json()["error_code"] == "bad_json"
    response = api.post("/signup", {"email": EMAIL, **SOLVED})
    assert response.json()["error_code"] == "over_request_rate_limit"


def test_password_grant_checks_captcha_then_limit_then_body(api: Api, service: MockedServer) -> None:
    assert_error(api.post(PASSWORD_GRANT, {"email": 1}), 400, "captcha_failed", MISSING)
    assert api.post(PASSWORD_GRANT, {"email": 1, **SOLVED}).json()["error_code"] == "bad_json"
    use_up("Verify")
    RateLimit.objects.filter(bucket="Token").update(tokens=0, updated_at=timezone.now() + timedelta(hours=1))
    assert api.post(PASSWORD_GRANT, {"email": 1, **SOLVED}).json()["error_code"] == "over_request_rate_limit"


def test_the_method_is_checked_before_the_captcha(api: Api, service: MockedServer) -> None:
    assert api.get("/signup").status_code == 405


@pytest.mark.parametrize(
    ("body", "status", "error_code"),
    [
        (b"", 400, "bad_json"),
        (b"{", 400, "bad_json"),
        (b"[]", 400, "bad_json"),
        (b'"text"', 400, "bad_json"),
        (b'{"gotrue_meta_security":5}', 400, "bad_json"),
        (b'{"gotrue_meta_security":{"captcha_token":5}}', 400, "bad_json"),
        (b'{"gotrue_meta_security":{"captcha_token":"a\\u0000"}}', 400, "bad_json"),
        (b"null", 400, "captcha_failed"),
        (b'{"gotrue_meta_security":null}', 400, "captcha_failed"),
        (b'{"x":"' + b"x" * 1_048_576 + b'"}', 413, "request_entity_too_large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_body_is_reported_as_without_captcha(
    api: Api, service: MockedServer, body: bytes, status: int, error_code: str
) -> None:
    response = api.post("/signup", body)
    assert (response.status_code, response.json()["error_code"]) == (status, error_code)
    assert service.received == []


# The request to the service


@pytest.mark.parametrize(
    ("provider", "url"),
    [
        ("hcaptcha", "https://hcaptcha.com/siteverify"),
        ("turnstile", "https://challenges.cloudflare.com/turnstile/v0/siteverify"),
    ],
)
def test_the_service_receives_secret_token_and_address(
    api: Api, service: MockedServer, auth_config: ChangeConfig, mocked_requests: RequestsMock, provider: str, url: str
) -> None:
    auth_config(captcha={"provider": provider})

    response = api.post("/recover", {"email": EMAIL, **SOLVED}, headers={"X-Forwarded-For": "203.0.113.9"})

    assert response.status_code == 200
    (request,) = service.received
    assert (request.method, mocked_requests.calls[0].request.url) == ("POST", url)
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.form == {"secret": SECRET, "response": "P1_solved", "remoteip": "203.0.113.9"}


def test_results_are_not_cached(api: Api, service: MockedServer) -> None:
    service.respond(PASSED, in_json({"success": False, "error-codes": ["already-seen-response"]}))
    body = {"email": EMAIL, **SOLVED}
    assert api.post("/recover", body).status_code == 200
    response = api.post("/recover", body)
    assert_error(response, 400, "captcha_failed", "captcha protection: request disallowed (already-seen-response)")


# Results


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ({"success": False, "error-codes": ["invalid-input-secret"]}, "invalid-input-secret"),
        ({"success": False, "error-codes": ["a", "b"], "score": 0.1}, "a, b"),
        ({"success": False, "error-codes": []}, ""),
        ({"success": False, "error-codes": None}, ""),
        ({"error-codes": ["missing-input-response"]}, "missing-input-response"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("status", [200, 400])
def test_a_rejection_reports_its_error_codes(
    api: Api, service: MockedServer, verdict: dict[str, Any], reason: str, status: int
) -> None:
    before = table_contents()
    service.respond(in_json(verdict, status=status))
    response = api.post("/signup", {"email": EMAIL, "password": PASSWORD, **SOLVED})
    assert_error(response, 400, "captcha_failed", f"captcha protection: request disallowed ({reason})")
    assert table_contents() == before


def test_success_is_accepted_with_any_status(api: Api, service: MockedServer) -> None:
    service.respond(in_json({"success": True}, status=503))
    assert api.post("/recover", {"email": EMAIL, **SOLVED}).status_code == 200


NO_VERDICT: dict[str, Response] = {
    "HTML": Response(headers={"Content-Type": "text/html"}, body=b"<html>success</html>"),
    "HTML with an error's status": Response(status=502, body=b"<html></html>"),
    "nothing": Response(body=b""),
    "a list": in_json([True]),
    "true": in_json(True),
    "success as text": in_json({"success": "true"}),
    "success as number": in_json({"success": 1}),
    "reasons of another type": in_json({"success": True, "error-codes": "none"}),
    "invalid UTF-8": Response(body=b'{"success":false,"error-codes":["\xff"]}'),
    "a flood": Response(body=b'{"success":true}' + b" " * 100_000),
    "a redirect": Response(status=302, headers={"Location": "https://example.com/"}),
}


BROKEN: dict[str, Response] = {
    "a closed connection": Response(raw=b"", close=True),
    "no HTTP": Response(raw=b"hello\r\n\r\n", close=True),
    "no response": Response(hang=True),
    "single bytes": Response(body=b'{"success":true}', drip=0.1),
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_a_broken_connection_fails_the_request(
    api: Api, service_peer: HttpPeer, caplog: pytest.LogCaptureFixture, response: Response
) -> None:
    caplog.set_level(logging.DEBUG)
    service_peer.respond(response)
    _assert_failure(api, service_peer, caplog)


@pytest.mark.parametrize("response", NO_VERDICT.values(), ids=NO_VERDICT)
def test_without_a_verdict_the_request_fails(
    api: Api, service: MockedServer, caplog: pytest.LogCaptureFixture, response: Response
) -> None:
    caplog.set_level(logging.DEBUG)
    service.respond(response)
    _assert_failure(api, service, caplog)


def _assert_failure(api: Api, service: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    before, began = table_contents(), time.monotonic()

    response = api.post("/signup", {"email": EMAIL, "password": PASSWORD, **SOLVED})

    assert time.monotonic() - began < 20
    assert (response.status_code, response.json()["error_code"], response.json()["msg"]) == (
        500,
        "unexpected_failure",
        FAILED,
    )
    service.wait_for_requests(1)
    assert len(service.received) == 1
    assert table_contents() == before
    assert SECRET not in caplog.text
    assert "P1_solved" not in caplog.text


def test_an_unreachable_service_fails_the_request(
    api: Api, service: MockedServer, mocked_requests: RequestsMock
) -> None:
    mocked_requests.reset()
    response = api.post("/recover", {"email": EMAIL, **SOLVED})
    assert (response.status_code, response.json()["error_code"], response.json()["msg"]) == (
        500,
        "unexpected_failure",
        FAILED,
    )


# Administrators


@pytest.mark.parametrize("role", ["service_role", "svc_admin"])
@pytest.mark.parametrize(("path", "body"), PROTECTED)
def test_an_administrator_needs_no_captcha(
    api: Api, service: MockedServer, path: str, body: dict[str, Any], role: str
) -> None:
    assert api.post(path, body, bearer=service_token(role=role)).status_code == 200
    assert service.received == []


def test_an_administrator_token_skips_the_captcha_of_a_sign_in(api: Api, service: MockedServer) -> None:
    user = make_user()
    body = {"email": user.email, "password": PASSWORD}
    assert api.post(PASSWORD_GRANT, body, bearer=service_token()).status_code == 200
    assert service.received == []


@pytest.mark.parametrize(
    "token",
    [
        lambda: service_token(role="authenticated"),
        lambda: service_token(role="Service_Role"),
        lambda: jwt.encode({"sub": str(uuid4())}, settings.AUTH.jwt.secret.reveal(), algorithm="HS256"),
        lambda: service_token(secret="another secret of 32 characters or more"),
        lambda: service_token(exp=1),
        lambda: service_token(nbf=32_503_680_000),
        lambda: service_token(session_id=str(uuid4()), sub=str(uuid4())),
        lambda: service_token(session_id=str(uuid4())),
        lambda: service_token(session_id="x", sub=str(uuid4())),
        lambda: jwt.encode({"role": "service_role"}, "", algorithm="none"),
        lambda: "nonsense",
        lambda: "a b",
    ],
)
def test_other_tokens_do_not_skip_the_captcha(api: Api, service: MockedServer, token: Callable[[], str]) -> None:
    assert_error(api.post("/recover", {"email": EMAIL}, bearer=token()), 400, "captcha_failed", MISSING)
    assert api.post("/recover", {"email": EMAIL, **SOLVED}, bearer=token()).status_code == 200


def test_a_user_with_an_administrators_role_needs_no_captcha(api: Api, service: MockedServer) -> None:
    token = make_session(make_user(role="svc_admin")).access_token
    assert api.post("/recover", {"email": EMAIL}, bearer=token).status_code == 200
    assert service.received == []


def test_a_user_without_the_role_needs_a_captcha(api: Api, service: MockedServer) -> None:
    token = make_session(make_user()).access_token
    assert_error(api.post("/recover", {"email": EMAIL}, bearer=token), 400, "captcha_failed", MISSING)


@pytest.mark.parametrize(
    "undo",
    [
        lambda user: user.update(role="authenticated"),
        lambda user: user.update(banned_until=timezone.now() + timedelta(hours=1)),
        lambda user: Session.objects.all().delete(),
        lambda user: Session.objects.update(not_after=timezone.now() - timedelta(seconds=1)),
        lambda user: user.delete(),
    ],
    ids=["demoted", "banned", "signed out", "session over", "deleted"],
)
def test_a_former_administrator_needs_a_captcha(api: Api, service: MockedServer, undo: Callable[[Any], object]) -> None:
    user = make_user(role="svc_admin")
    token = make_session(user).access_token
    undo(User.objects.filter(id=user.id))
    assert_error(api.post("/recover", {"email": EMAIL}, bearer=token), 400, "captcha_failed", MISSING)


def test_a_session_of_an_oauth_client_needs_a_captcha(api: Api, service: MockedServer) -> None:
    token = make_session(make_user(role="svc_admin"), oauth_client_id=uuid4()).access_token
    assert_error(api.post("/recover", {"email": EMAIL}, bearer=token), 400, "captcha_failed", MISSING)
