"""GET and POST /callback: refusals and failures of the provider, and the authentication of the client."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from oauthproviders.base import backends
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import Response, in_json
from tests.oauthproviders.browser import (
    EMAILS_PATH,
    SITE,
    TOKEN_PATH,
    USER_PATH,
    Browser,
    GitHub,
    assert_error_redirect,
    provider_settings,
)
from tests.observations import redirect_fragment, table_contents

pytestmark = pytest.mark.django_db


def test_an_error_of_the_provider_is_forwarded(github: GitHub, browser: Browser) -> None:
    state = browser.start(redirect_to=f"{SITE}/in?x=1&error=old#top")

    response = browser.callback(state, error="access_denied", error_description="no, 100% not")

    assert response.headers["Location"] == (
        f"{SITE}/in?error=access_denied&error_description=no%2C+100%25+not&x=1"
        "#top&error=access_denied&error_description=no%2C+100%25+not&sb="
    )
    assert github.server.received == []


def test_a_callback_without_a_code_is_an_error(github: GitHub, browser: Browser) -> None:
    response = browser.callback(browser.start(), code="")

    text = "OAuth callback with missing authorization code missing"
    assert_error_redirect(response, "invalid_request", "bad_oauth_callback", text)


def test_a_provider_that_was_disabled_during_the_flow_is_not_called(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    state = browser.start()
    auth_config(providers={"github": provider_settings(enabled=False)})

    assert_error_redirect(
        browser.callback(state),
        "invalid_request",
        "oauth_provider_not_supported",
        "Unsupported provider: provider is not enabled",
    )
    assert github.server.received == []


HTML = Response(headers={"Content-Type": "text/html"}, body=b"<html>Sign in</html>")
TOO_LONG = in_json({"access_token": "x" * 10_000_000})
NO_EXCHANGE = "Unable to exchange external code: auth"
NO_PROFILE = "Error getting user profile from external provider"


@pytest.mark.parametrize(
    "response",
    [
        Response(status=500),
        Response(status=401, body=b'{"error":"bad_verification_code"}'),
        Response(status=302, headers={"Location": "https://elsewhere.example/"}),
        in_json({"error": "bad_verification_code", "access_token": "gho_x"}),
        in_json({}),
        in_json({"access_token": ""}),
        in_json({"access_token": 7}),
        in_json({"access_token": "a\0b"}),
        in_json([]),
        HTML,
        TOO_LONG,
        Response(headers={"Content-Type": "application/x-www-form-urlencoded"}, body=b"error=no&access_token=x"),
        Response(headers={"Content-Type": "text/plain; charset=utf-8"}, body=b"access_token=a%00b"),
    ],
    ids=lambda response: response.body[:40].decode() + f" {response.status}",
)
def test_an_invalid_token_response_is_an_error(
    response: Response, github: GitHub, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    github.server.respond(response, path=TOKEN_PATH)
    state = browser.start()
    before = table_contents()

    with caplog.at_level(logging.WARNING):
        assert_error_redirect(browser.callback(state), "server_error", "unexpected_failure", NO_EXCHANGE)

    assert table_contents() == before
    assert not any("authcode" in record.getMessage() for record in caplog.records)
    assert [getattr(record, "event", "") for record in caplog.records] == ["provider.exchange"]


@pytest.mark.parametrize(
    ("path", "response"),
    [
        (path, response)
        for path in (USER_PATH, EMAILS_PATH)
        for response in (Response(status=500), Response(status=204), HTML, TOO_LONG, in_json(None))
    ]
    + [
        (USER_PATH, in_json({"login": "ada"})),
        (USER_PATH, in_json({"id": None})),
        (USER_PATH, in_json({"id": ""})),
        (USER_PATH, in_json({"id": "7"})),
        (USER_PATH, in_json({"id": 7, "name": {"first": "Ada"}})),
        (USER_PATH, in_json({"id": 7, "name": "a\0b"})),
        (USER_PATH, Response(body=b'{"id":7,"name":"\\ud800"}')),
        (USER_PATH, Response(body=b'{"id":7,"x":' + b"[" * 500 + b"]" * 500 + b"}")),
        (USER_PATH, in_json([])),
        (EMAILS_PATH, in_json({})),
        (EMAILS_PATH, in_json([{"verified": True}])),
        (EMAILS_PATH, in_json([{"email": "ada@example.com", "verified": "yes"}])),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status} {value.body[:30]!r}",
)
def test_an_invalid_profile_response_is_an_error(
    path: str, response: Response, github: GitHub, browser: Browser
) -> None:
    github.server.respond(response, path=path)
    state = browser.start()
    before = table_contents()

    assert_error_redirect(browser.callback(state), "server_error", "unexpected_failure", NO_PROFILE)
    assert table_contents() == before


@pytest.mark.parametrize("path", [TOKEN_PATH, USER_PATH, EMAILS_PATH])
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Response(raw=b""), id="closed"),
        pytest.param(Response(hang=True), id="hanging"),
        pytest.param(Response(drip=0.05, body=b"{}"), id="slow"),
    ],
)
def test_a_broken_connection_is_an_error(
    path: str, response: Response, github_peer: GitHub, browser: Browser, auth_config: ChangeConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    auth_config(api={"internal_http_timeout": timedelta(seconds=3)})
    github_peer.server.respond(response, path=path)
    state = browser.start()
    before = ()

    with caplog.at_level(logging.WARNING):
        text = NO_EXCHANGE if path == TOKEN_PATH else NO_PROFILE
        assert_error_redirect(browser.callback(state), "server_error", "unexpected_failure", text)

    assert before == ()
    event = "provider.exchange" if path == TOKEN_PATH else "provider.profile"
    assert [getattr(record, "event", "") for record in caplog.records] == [event]


@pytest.mark.parametrize("path", [TOKEN_PATH, USER_PATH, EMAILS_PATH])
def test_a_provider_that_hangs_is_an_error_before_the_request_deadline(
    path: str, github_peer: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(api={"max_request_duration": timedelta(seconds=2)})
    github_peer.server.respond(Response(hang=True), path=path)

    text = NO_EXCHANGE if path == TOKEN_PATH else NO_PROFILE
    assert_error_redirect(browser.sign_in(), "server_error", "unexpected_failure", text)


def test_a_state_can_be_used_again_after_an_error_of_the_provider(github: GitHub, browser: Browser) -> None:
    github.server.respond(Response(status=500), path=TOKEN_PATH)
    state = browser.start()
    browser.callback(state)
    github.set_token_response({"access_token": "gho_x"})

    assert "access_token" in redirect_fragment(browser.callback(state))


def test_client_authentication_falls_back_to_the_body_and_stays_there(github: GitHub, browser: Browser) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    github.server.respond(
        Response(status=401), Response(headers=form, body=b"access_token=gho_z&token_type=bearer"), path=TOKEN_PATH
    )

    assert redirect_fragment(browser.sign_in())["provider_token"] == "gho_z"

    basic, in_body = (request for request in github.server.received if request.path == TOKEN_PATH)
    assert "client_secret" not in basic.form
    assert "Authorization" not in in_body.headers
    assert (in_body.form["client_id"], in_body.form["client_secret"], in_body.form["code"]) == (
        "cid", "sec", "authcode",
    )  # fmt: skip
    browser.sign_in()
    requests = [request for request in github.server.received if request.path == TOKEN_PATH]
    assert len(requests) == 3
    assert "client_secret" in requests[-1].form


def test_client_authentication_changes_when_the_provider_refuses_the_former_style(
    github: GitHub, browser: Browser
) -> None:
    browser.sign_in()
    github.server.respond(Response(status=401), Response(status=401), in_json({"access_token": "x"}), path=TOKEN_PATH)

    assert redirect_fragment(browser.sign_in())["error"] == "server_error"

    assert redirect_fragment(browser.sign_in())["provider_token"] == "x"
    assert "client_secret" in [request for request in github.server.received if request.path == TOKEN_PATH][-1].form


def test_the_cache_of_client_authentication_styles_is_bounded(github: GitHub, browser: Browser) -> None:
    backends.sends_credentials_in_body.update(
        {(f"https://{number}.example/token", "cid"): True for number in range(1000)}
    )

    browser.sign_in()

    assert len(backends.sends_credentials_in_body) == 1
