"""Breached passwords: look-up requests, refusals, failures and caching."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from responses import RequestsMock

from accounts import errors
from accounts.models import User
from accounts.passwords import breaches, policy
from authsvc.conf import AuthConfig
from tests.conftest import Api
from tests.factories import make_one_time_token, make_user
from tests.fakes.http_peer import FakeServer, HttpPeer, MockedServer, Response
from tests.observations import assert_error, table_contents
from tokens.models import TokenType

ChangeConfig = Callable[..., AuthConfig]

PWNED = "password"
SUFFIX = "1E4C9B93F3F0682250B6CF8331B7EE68FD8"
PWNED_TEXT = "Password is known to be weak and easy to guess, please choose a different one."
NO_CHECK = "Unable to perform password strength check with HaveIBeenPwned.org."
NO_CHECK_ALLOWED = (
    "Unable to perform password strength check with HaveIBeenPwned.org, pwned passwords are being allowed"
)
OTHERS = "003D68EB55068C33ACE09247EE4C639306B:3\r\n012C192B2F16F82EA0EB9EF18D9D539B0DD:100\r\n"


def list_of(*lines: str) -> Response:
    return Response(body=(OTHERS + "\r\n".join(lines)).encode())


KNOWN = list_of(f"{SUFFIX}:3")


@pytest.fixture
def _enabled(auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Enable the look-up without results of other tests, and wait for calls that a test has left pending."""
    auth_config(breaches={"enabled": True})
    monkeypatch.setattr(breaches, "no_advice_before", 0.0)
    breaches.bloom_filter.cache_clear()
    yield
    futures.wait(list(breaches.pending_calls.values()))


@pytest.fixture
def service(_enabled: None, mocked_requests: RequestsMock) -> MockedServer:
    """The service that lists breached passwords, with one of them."""
    server = MockedServer(mocked_requests, url="https://api.pwnedpasswords.com")
    server.respond(KNOWN)
    return server


@pytest.fixture
def service_peer(_enabled: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """The same on loopback, for slow and malformed responses."""
    with HttpPeer() as peer:
        peer.respond(KNOWN)
        monkeypatch.setattr(breaches, "RANGES_URL", f"{peer.url}/range/")
        yield peer


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that each look-up allows for its call; the test waits a tenth of them."""
    recorded: list[float] = []
    result = Future.result

    def wait_for_tenth(future: Future[Any], timeout: float | None = None) -> Any:
        assert timeout is not None
        recorded.append(timeout)
        return result(future, timeout / 10)

    monkeypatch.setattr(Future, "result", wait_for_tenth)
    return recorded


def sign_up(api: Api, password: str = PWNED) -> Any:
    return api.post("/signup", {"email": "user@example.com", "password": password})


# A breached password


@pytest.mark.django_db
def test_breached_password_is_rejected_at_sign_up(api: Api, service: MockedServer) -> None:
    before = table_contents()
    assert_error(sign_up(api), 422, "weak_password", PWNED_TEXT, weak_password={"reasons": ["pwned"]})
    assert table_contents() == before


def test_request_contains_hash_prefix_only(service: MockedServer, mocked_requests: RequestsMock) -> None:
    assert breaches.is_breached(PWNED)
    (request,) = service.received
    assert mocked_requests.calls[0].request.url == "https://api.pwnedpasswords.com/range/5BAA6"
    assert (request.method, request.target, request.body) == ("GET", "/range/5BAA6", b"")
    assert request.headers["User-Agent"] == "authsvc/0.1.0"
    sent = f"{request.target} {dict(request.headers.items())}".upper()
    assert SUFFIX[:6] not in sent
    assert "PASSWORD" not in sent


def test_user_agent_is_configurable(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(breaches={"user_agent": "my site/2"})
    breaches.is_breached(PWNED)
    assert service.received[0].headers["User-Agent"] == "my site/2"


@pytest.mark.parametrize(
    ("line", "known"),
    [
        (f"{SUFFIX}:3", True),
        (f"{SUFFIX}:9545824", True),
        (f"{SUFFIX}:003", True),
        (f"{SUFFIX}:3 \t", True),
        (f"{SUFFIX}:3\r\n{SUFFIX}:0", True),
        (f"{SUFFIX}:0", False),
        (f"{SUFFIX}:000", False),
        (f"{SUFFIX}:", False),
        (f"{SUFFIX}:-3", False),
        (f"{SUFFIX}:3x", False),
        (f"{SUFFIX}", False),
        (f" {SUFFIX}:3", False),
        (f"{SUFFIX.lower()}:3", False),
        (f"5BAA6{SUFFIX}:3", False),
        (f"{SUFFIX[:-1]}:3", False),
        ("", False),
        ("<html>\r\n\xff", False),
    ],
)
def test_only_well_formed_lines_with_count_match(service: MockedServer, line: str, known: bool) -> None:
    service.respond(Response(body=(OTHERS + line).encode("latin-1")))
    assert breaches.is_breached(PWNED) is known


def test_all_reasons_are_reported_in_order(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(passwords={"min_length": 9, "required_characters": ("0123456789",)})
    with pytest.raises(errors.PasswordTooWeak) as refusal:
        policy.validate_password(PWNED)
    assert refusal.value.reasons == ("length", "characters", "pwned")
    assert refusal.value.message == (
        "Password should be at least 9 characters. "
        f"Password should contain at least one character of each: 0123456789. {PWNED_TEXT}"
    )


def test_a_password_that_is_too_long_is_not_looked_up(service: MockedServer) -> None:
    with pytest.raises(errors.PasswordTooLong):
        policy.validate_password("x" * 73)
    assert service.received == []


def test_a_disabled_look_up_sends_no_request(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(breaches={"enabled": False})
    policy.validate_password(PWNED)
    assert policy.find_weakness(PWNED) is None
    assert service.received == []


@pytest.mark.django_db
def test_the_password_that_confirms_an_account_is_looked_up_too(api: Api, service: MockedServer) -> None:
    user = make_user(password="", confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    body = {"type": "signup", "token_hash": secret.link_token, "password": PWNED}
    assert_error(api.post("/verify", body), 422, "weak_password", PWNED_TEXT, weak_password={"reasons": ["pwned"]})
    assert len(service.received) == 1


# Failed look-ups

FAILURES: dict[str, Response] = {
    "unavailable": Response(status=503),
    "not found": Response(status=404, body=KNOWN.body),
    "no content": Response(status=204),
    "a redirect": Response(status=302, headers={"Location": "https://example.com/"}),
    "a flood": Response(body=b"x" * 5_000_000),
}
BROKEN: dict[str, Response] = {
    "a closed connection": Response(raw=b"", close=True),
    "half an answer": Response(headers={"Content-Length": "100000"}, body=KNOWN.body, close=True),
}


@pytest.mark.django_db
@pytest.mark.parametrize("response", FAILURES.values(), ids=FAILURES)
def test_failed_look_up_accepts_password_with_warning(
    api: Api, service: MockedServer, caplog: pytest.LogCaptureFixture, response: Response
) -> None:
    service.respond(response)
    _assert_accepted(api, service, caplog)


@pytest.mark.django_db
@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_broken_connection_accepts_password_with_warning(
    api: Api, service_peer: HttpPeer, caplog: pytest.LogCaptureFixture, response: Response
) -> None:
    service_peer.respond(response)
    _assert_accepted(api, service_peer, caplog)


def _assert_accepted(api: Api, service: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="accounts.passwords.breaches"):
        assert sign_up(api).status_code == 200
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", NO_CHECK_ALLOWED)]
    service.wait_for_requests(1)
    assert len(service.received) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("response", FAILURES.values(), ids=FAILURES)
def test_failed_look_up_rejects_password_when_configured(
    api: Api, service: MockedServer, auth_config: ChangeConfig, response: Response
) -> None:
    auth_config(breaches={"fail_closed": True})
    service.respond(response)
    _assert_refused(api)


@pytest.mark.django_db
@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_broken_connection_rejects_password_when_configured(
    api: Api, service_peer: HttpPeer, auth_config: ChangeConfig, response: Response
) -> None:
    auth_config(breaches={"fail_closed": True})
    service_peer.respond(response)
    _assert_refused(api)


def _assert_refused(api: Api) -> None:
    before = table_contents()

    response = sign_up(api)

    assert (response.status_code, response.json()["error_code"], response.json()["msg"]) == (
        500,
        "unexpected_failure",
        NO_CHECK,
    )
    assert table_contents() == before


def test_silent_service_times_out_after_five_seconds(
    service_peer: HttpPeer, auth_config: ChangeConfig, timeouts: list[float]
) -> None:
    auth_config(breaches={"fail_closed": True})
    service_peer.respond(Response(hang=True))
    with pytest.raises(errors.BreachLookupFailed):
        breaches.is_breached(PWNED)
    assert timeouts == [5.0]


def test_unreachable_service_is_failed_look_up(
    service: MockedServer, auth_config: ChangeConfig, mocked_requests: RequestsMock
) -> None:
    mocked_requests.reset()
    policy.validate_password(PWNED)
    auth_config(breaches={"fail_closed": True})
    with pytest.raises(errors.BreachLookupFailed):
        policy.validate_password(PWNED)


@pytest.mark.django_db
@pytest.mark.parametrize("response", [KNOWN, FAILURES["unavailable"]])
@pytest.mark.parametrize("fail_closed", [False, True])
def test_log_contains_no_password_or_hash(
    api: Api,
    service: MockedServer,
    auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
    response: Response,
    fail_closed: bool,
) -> None:
    secret = "horse battery staple 7"
    caplog.set_level(logging.DEBUG)
    auth_config(breaches={"fail_closed": fail_closed})
    service.respond(response)
    sign_up(api, secret)
    shown = " ".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert secret not in shown
    digest = hashlib.sha1(secret.encode()).hexdigest().upper()
    assert digest[5:12] not in shown.upper()
    assert f"/RANGE/{digest[:5]}" not in shown.upper()


# Sign-in


def sign_in(api: Api, user: User, password: str = PWNED) -> Any:
    return api.post("/token?grant_type=password", {"email": user.email, "password": password})


@pytest.mark.django_db
def test_a_sign_in_reports_a_breached_password(api: Api, service: MockedServer) -> None:
    response = sign_in(api, make_user(password=PWNED))
    assert response.status_code == 200
    assert response.json()["weak_password"] == {"message": PWNED_TEXT, "reasons": ["pwned"]}


@pytest.mark.django_db
def test_a_wrong_password_is_not_looked_up(api: Api, service: MockedServer) -> None:
    assert sign_in(api, make_user(password="another one"), PWNED).status_code == 400
    assert service.received == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "response", [*FAILURES.values(), *BROKEN.values(), Response(hang=True)], ids=[*FAILURES, *BROKEN, "no response"]
)
@pytest.mark.parametrize("fail_closed", [False, True])
def test_failed_look_up_neither_prevents_nor_delays_sign_in(
    api: Api, service_peer: HttpPeer, auth_config: ChangeConfig, timeouts: list[float], response: Response,
    fail_closed: bool,
) -> None:  # fmt: skip
    auth_config(breaches={"fail_closed": fail_closed})
    service_peer.respond(response)
    user = make_user(password=PWNED)

    first = sign_in(api, user)
    second = sign_in(api, user)

    assert (first.status_code, first.json()["weak_password"]) == (200, None)
    assert (second.status_code, second.json()["weak_password"]) == (200, None)
    assert timeouts == [1.0]
    service_peer.wait_for_requests(1)
    assert len(service_peer.received) == 1


@pytest.mark.django_db
def test_sign_in_looks_up_again_30_seconds_after_failure(
    api: Api, service: MockedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 1000.0
    monkeypatch.setattr(breaches, "time", SimpleNamespace(monotonic=lambda: seconds))
    service.respond(Response(status=503), KNOWN)
    user = make_user(password=PWNED)
    assert sign_in(api, user).json()["weak_password"] is None
    seconds += 29.9
    assert sign_in(api, user).json()["weak_password"] is None
    assert len(service.received) == 1
    seconds += 0.1
    assert sign_in(api, user).json()["weak_password"]["reasons"] == ["pwned"]


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_during_the_look_up(api: Api, service: MockedServer) -> None:
    open_transactions: list[int] = []

    def count() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )
                open_transactions.extend(cursor.fetchone() or ())
        finally:
            connection.close()

    service.respond(Response(body=KNOWN.body, before=count))
    sign_up(api)
    sign_in(api, make_user(password=PWNED))
    user = make_user(password="", confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    api.post("/verify", {"type": "signup", "token_hash": secret.link_token, "password": PWNED})
    assert open_transactions == [0] * 3


# Caching


def test_failed_look_up_is_not_cached(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(breaches={"fail_closed": True})
    service.respond(Response(status=503), KNOWN)
    with pytest.raises(errors.BreachLookupFailed):
        breaches.is_breached(PWNED)
    assert breaches.is_breached(PWNED)


def test_breached_hashes_are_cached_when_configured(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(breaches={"bloom_enabled": True})
    assert breaches.is_breached(PWNED)
    service.respond(Response(status=503))
    assert breaches.is_breached(PWNED)
    assert breaches.is_known_breached(PWNED)
    assert len(service.received) == 1
    assert not breaches.is_breached("not in any list")
    assert len(service.received) == 2


def test_padding_is_not_cached(service: MockedServer, auth_config: ChangeConfig) -> None:
    auth_config(breaches={"bloom_enabled": True})
    service.respond(list_of(f"{SUFFIX}:0"))
    assert not breaches.is_breached(PWNED)
    assert not breaches.is_breached(PWNED)
    assert len(service.received) == 2
