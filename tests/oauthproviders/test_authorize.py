"""GET /authorize: what is refused, what the provider's address says, what is remembered."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

import pytest

from authsvc.security import crypto
from oauthproviders import registry
from oauthproviders.models import ClientState
from tests import factories
from tests.conftest import Answer, Api, ChangeConfig
from tests.factories import CHALLENGE
from tests.oauthproviders.browser import REDIRECT_URI, SITE, Browser, GitHub, configured, link
from tests.observations import assert_error, table_contents
from tokens.models import FlowState, TokenType

pytestmark = pytest.mark.django_db

UNSUPPORTED = "Unsupported provider: "


@pytest.fixture(autouse=True)
def providers(auth_config: ChangeConfig) -> None:
    usable = {name: configured() for name in ("github", "x", "workos")}
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        providers={**usable, "keycloak": configured(), "spotify": configured(enabled=False)},
    )


def ask(api: Api, **query: str) -> Answer:
    return api.get(f"/authorize?{urlencode({'provider': 'github', **query})}")


def asked_of_provider(answer: Answer) -> dict[str, str]:
    assert answer.status_code == 302, answer.content
    pairs = parse_qsl(urlsplit(answer.headers["Location"]).query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_the_provider_is_told_who_asks_and_where_to_come_back(api: Api) -> None:
    answer = ask(api, redirect_to=f"{SITE}/in")

    flow = FlowState.objects.get()
    assert answer.headers["Location"] == (
        "https://github.com/login/oauth/authorize?client_id=cid"
        f"&redirect_uri=https%3A%2F%2Fauth.example.com%2Fcallback&response_type=code&scope=user%3Aemail&state={flow.id}"
    )
    assert (answer.content, answer.headers["Cache-Control"]) == (b"", "no-store")
    assert flow.id.version == 4
    remembered = (flow.provider_type, flow.authentication_method, flow.referrer, flow.user_id, flow.auth_code)
    assert remembered == ("github", "oauth", f"{SITE}/in", None, None)
    assert not flow.email_optional


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"provider": "external"}, "Provider external could not be found"),
        ({"provider": ""}, "Provider  could not be found"),
        ({"provider": "spotify"}, "provider is not enabled"),
        ({"provider": "keycloak"}, "unable to find URL for the Keycloak provider"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused(query: dict[str, str], reason: str, api: Api) -> None:
    assert_error(ask(api, **query), 400, "validation_failed", UNSUPPORTED + reason)
    assert not FlowState.objects.exists()


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ({"enabled": False, "client_ids": ()}, "provider is not enabled"),
        ({"client_ids": (), "redirect_uri": ""}, "missing OAuth client ID"),
        ({"client_ids": ("",)}, "missing OAuth client ID"),
        ({"secret": configured().secret.__class__(""), "redirect_uri": ""}, "missing OAuth secret"),
        ({"redirect_uri": ""}, "missing redirect URI"),
        ({}, ""),
    ],
)
def test_what_is_missing_is_told_one_at_a_time(missing: dict[str, Any], reason: str) -> None:
    assert registry.configuration_error("github", configured(**missing)) == reason


def test_the_name_of_a_provider_is_kept_in_lower_case(api: Api) -> None:
    assert ask(api, provider="GitHub").status_code == 302
    assert FlowState.objects.get().provider_type == "github"


@pytest.mark.parametrize("scopes", ["repo,gist", "repo gist"])
def test_scopes_are_added_to_the_usual_ones(scopes: str, api: Api) -> None:
    assert asked_of_provider(ask(api, scopes=scopes))["scope"] == "user:email repo gist"


def test_a_client_may_say_the_whole_scope(api: Api) -> None:
    assert asked_of_provider(ask(api, scope="read:user"))["scope"] == "read:user"


@pytest.mark.parametrize(
    "name",
    [
        "client_id", "client_secret", "redirect_uri", "response_type", "state", "STATE", "Redirect_Uri",
        "code_verifier", "skip_http_redirect", "scopes",
    ],
)  # fmt: skip
def test_what_is_ours_is_not_forwarded(name: str, api: Api) -> None:
    asked = asked_of_provider(ask(api, **{name: "evil", "login_hint": "u@e.co"}))

    ours = {"client_id": "cid", "redirect_uri": REDIRECT_URI, "response_type": "code", "login_hint": "u@e.co"}
    assert {key: value for key, value in asked.items() if key not in ("state", "scope")} == ours
    assert asked["state"] == str(FlowState.objects.get().id)
    assert name in ("state", "scopes") or "evil" not in asked.values()


def test_a_forwarded_value_cannot_become_another_parameter(api: Api) -> None:
    asked = asked_of_provider(ask(api, login_hint="a&redirect_uri=https://evil.example"))

    assert (asked["redirect_uri"], asked["login_hint"]) == (REDIRECT_URI, "a&redirect_uri=https://evil.example")


def test_of_a_repeated_parameter_the_first_counts(api: Api) -> None:
    assert asked_of_provider(api.get("/authorize?provider=github&prompt=a&prompt=b&provider=x"))["prompt"] == "a"


@pytest.mark.parametrize(
    ("given", "forwarded"),
    [
        ({"connection": "c"}, {"connection": "c"}),
        ({"organization": "o"}, {"organization": "o"}),
        ({"workos_provider": "p"}, {"provider": "p"}),
    ],
)
def test_workos_is_told_whom_to_ask(given: dict[str, str], forwarded: dict[str, str], api: Api) -> None:
    asked = asked_of_provider(ask(api, provider="workos", **given))

    assert "scope" not in asked
    assert forwarded.items() <= asked.items()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"code_challenge": CHALLENGE}, "PKCE flow requires code_challenge_method and code_challenge"),
        ({"code_challenge_method": "s256"}, "PKCE flow requires code_challenge_method and code_challenge"),
        (
            {"code_challenge": CHALLENGE[:42], "code_challenge_method": "s256"},
            "code challenge has to be between 43 and 128 characters",
        ),
        (
            {"code_challenge": "!" * 50, "code_challenge_method": "s256"},
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "foo"}, "Invalid code_challenge_method"),
    ],
)
def test_parameters_of_pkce_that_make_no_sense_are_refused(query: dict[str, str], text: str, api: Api) -> None:
    before = table_contents()
    assert_error(ask(api, **query), 400, "validation_failed", text)
    assert table_contents() == before


@pytest.mark.parametrize(("method", "kept"), [("S256", "s256"), ("plain", "plain")])
def test_a_challenge_is_kept_until_the_code_is_exchanged(method: str, kept: str, api: Api) -> None:
    asked = asked_of_provider(ask(api, code_challenge=CHALLENGE, code_challenge_method=method))

    flow = FlowState.objects.get()
    assert "code_challenge" not in asked
    assert (flow.code_challenge, flow.code_challenge_method, flow.user_id) == (CHALLENGE, kept, None)
    assert UUID(flow.auth_code or "").version == 4


def test_an_open_invitation_is_remembered_by_its_digest(api: Api) -> None:
    invited = factories.make_user(confirmed=False)
    token = factories.make_one_time_token(invited, TokenType.CONFIRMATION).link_token

    asked = asked_of_provider(ask(api, invite_token=token))

    assert token not in asked.values()
    assert FlowState.objects.get().invite_token == crypto.hash_link_token(token)


@pytest.mark.parametrize("token_type", [None, TokenType.RECOVERY])
def test_what_is_no_open_invitation_is_refused(token_type: TokenType | None, api: Api) -> None:
    token = factories.make_one_time_token(factories.make_user(), token_type).link_token if token_type else "wrong"

    assert_error(ask(api, invite_token=token), 404, "user_not_found", "User identified by token not found")
    assert not FlowState.objects.exists()


def test_towards_a_provider_that_wants_it_there_is_pkce_of_our_own(api: Api) -> None:
    asked = asked_of_provider(ask(api, provider="x"))

    kept, flow = ClientState.objects.get(), FlowState.objects.get()
    assert flow.oauth_client_state_id == kept.id
    assert kept.provider_type == "x"
    verifier = kept.code_verifier or ""
    assert len(verifier) == 43
    digest = crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest())
    assert (asked["code_challenge"], asked["code_challenge_method"]) == (digest, "S256")


def test_a_target_that_is_not_permitted_is_not_remembered(api: Api) -> None:
    assert ask(api, redirect_to="https://evil.example").status_code == 302
    assert FlowState.objects.get().referrer == SITE


def test_no_cookie_is_set_unless_flows_are_bound(api: Api) -> None:
    assert "Set-Cookie" not in ask(api).headers


def test_with_flow_binding_a_callback_is_taken_from_the_browser_alone_that_set_out(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"flow_binding_enabled": True}, api={"external_url": "https://auth.example.com/base"})
    state = browser.depart()

    cookie = browser.client.cookies[f"flow-{state}"]
    assert (cookie["path"], cookie["max-age"], cookie["samesite"]) == ("/base/callback", 300, "None")
    assert cookie["httponly"]
    assert cookie["secure"]
    stranger = Browser().come_back(state)
    assert stranger.status_code == 303
    assert "bad_oauth_state" in stranger.headers["Location"]
    browser.client.cookies[f"flow-{state}"]["path"] = "/"
    assert "#access_token=" in browser.come_back(state).headers["Location"]


def test_with_flow_binding_a_code_may_come_to_another_browser_but_no_linking(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"flow_binding_enabled": True})
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    linking = link(api, factories.make_session().access_token, **pkce)

    assert "bad_oauth_state" in Browser().come_back(linking).headers["Location"]
    assert "?code=" in Browser().come_back(browser.depart(**pkce)).headers["Location"]
