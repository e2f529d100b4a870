"""GET /authorize: errors, the authorization URL, and the stored flow."""

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
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import CHALLENGE
from tests.oauthproviders.browser import REDIRECT_URI, SITE, Browser, GitHub, provider_settings, start_link_flow
from tests.observations import assert_error, table_contents
from tokens.flows import flow_states
from tokens.models import FlowState, TokenType

pytestmark = pytest.mark.django_db

UNSUPPORTED = "Unsupported provider: "


@pytest.fixture(autouse=True)
def providers(auth_config: ChangeConfig) -> None:
    enabled = {name: provider_settings() for name in ("github", "x", "workos")}
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        providers={**enabled, "keycloak": provider_settings(), "spotify": provider_settings(enabled=False)},
    )


def authorize(api: Api, **query: str) -> ApiResponse:
    return api.get(f"/authorize?{urlencode({'provider': 'github', **query})}")


def authorization_parameters(response: ApiResponse) -> dict[str, str]:
    assert response.status_code == 302, response.content
    pairs = parse_qsl(urlsplit(response.headers["Location"]).query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_the_authorization_url_contains_client_redirect_uri_and_state(api: Api) -> None:
    response = authorize(api, redirect_to=f"{SITE}/in")

    flow = FlowState.objects.get()
    url, state = response.headers["Location"].split("&state=")
    assert url == (
        "https://github.com/login/oauth/authorize?client_id=cid"
        "&redirect_uri=https%3A%2F%2Fauth.example.com%2Fcallback&response_type=code&scope=user%3Aemail"
    )
    assert flow.id == flow_states.flow_id(UUID(state)) != UUID(state)
    assert (response.content, response.headers["Cache-Control"]) == (b"", "no-store")
    assert UUID(state).version == 4
    stored = (flow.provider_type, flow.authentication_method, flow.referrer, flow.user_id, flow.auth_code)
    assert stored == ("github", "oauth", f"{SITE}/in", None, None)
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
def test_an_unusable_provider_is_an_error(query: dict[str, str], reason: str, api: Api) -> None:
    assert_error(authorize(api, **query), 400, "validation_failed", UNSUPPORTED + reason)
    assert not FlowState.objects.exists()


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ({"enabled": False, "client_ids": ()}, "provider is not enabled"),
        ({"client_ids": (), "redirect_uri": ""}, "missing OAuth client ID"),
        ({"client_ids": ("",)}, "missing OAuth client ID"),
        ({"secret": provider_settings().secret.__class__(""), "redirect_uri": ""}, "missing OAuth secret"),
        ({"redirect_uri": ""}, "missing redirect URI"),
        ({}, ""),
    ],
)
def test_the_first_missing_setting_is_reported(missing: dict[str, Any], reason: str) -> None:
    assert registry.configuration_error("github", provider_settings(**missing)) == reason


def test_the_provider_name_is_stored_in_lower_case(api: Api) -> None:
    assert authorize(api, provider="GitHub").status_code == 302
    assert FlowState.objects.get().provider_type == "github"


@pytest.mark.parametrize("scopes", ["repo,gist", "repo gist"])
def test_scopes_are_added_to_the_default_scopes(scopes: str, api: Api) -> None:
    assert authorization_parameters(authorize(api, scopes=scopes))["scope"] == "user:email repo gist"


def test_the_parameter_scope_replaces_the_default_scopes(api: Api) -> None:
    assert authorization_parameters(authorize(api, scope="read:user"))["scope"] == "read:user"


@pytest.mark.parametrize(
    "name",
    [
        "client_id", "client_secret", "redirect_uri", "response_type", "state", "STATE", "Redirect_Uri",
        "code_verifier", "skip_http_redirect", "scopes",
    ],
)  # fmt: skip
def test_protocol_parameters_are_not_forwarded(name: str, api: Api) -> None:
    parameters = authorization_parameters(authorize(api, **{name: "evil", "login_hint": "u@e.co"}))

    expected = {"client_id": "cid", "redirect_uri": REDIRECT_URI, "response_type": "code", "login_hint": "u@e.co"}
    assert {key: value for key, value in parameters.items() if key not in ("state", "scope")} == expected
    assert flow_states.flow_id(UUID(parameters["state"])) == FlowState.objects.get().id
    assert name in ("state", "scopes") or "evil" not in parameters.values()


def test_a_forwarded_value_cannot_become_another_parameter(api: Api) -> None:
    parameters = authorization_parameters(authorize(api, login_hint="a&redirect_uri=https://evil.example"))

    assert (parameters["redirect_uri"], parameters["login_hint"]) == (
        REDIRECT_URI,
        "a&redirect_uri=https://evil.example",
    )


def test_the_first_value_of_a_repeated_parameter_is_used(api: Api) -> None:
    assert authorization_parameters(api.get("/authorize?provider=github&prompt=a&prompt=b&provider=x"))["prompt"] == "a"


@pytest.mark.parametrize(
    ("parameters", "forwarded"),
    [
        ({"connection": "c"}, {"connection": "c"}),
        ({"organization": "o"}, {"organization": "o"}),
        ({"workos_provider": "p"}, {"provider": "p"}),
    ],
)
def test_workos_parameters_are_forwarded(parameters: dict[str, str], forwarded: dict[str, str], api: Api) -> None:
    parameters = authorization_parameters(authorize(api, provider="workos", **parameters))

    assert "scope" not in parameters
    assert forwarded.items() <= parameters.items()


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
def test_invalid_pkce_parameters_are_an_error(query: dict[str, str], text: str, api: Api) -> None:
    before = table_contents()
    assert_error(authorize(api, **query), 400, "validation_failed", text)
    assert table_contents() == before


@pytest.mark.parametrize(("method", "stored"), [("S256", "s256"), ("plain", "plain")])
def test_the_code_challenge_is_stored(method: str, stored: str, api: Api) -> None:
    parameters = authorization_parameters(authorize(api, code_challenge=CHALLENGE, code_challenge_method=method))

    flow = FlowState.objects.get()
    assert "code_challenge" not in parameters
    assert (flow.code_challenge, flow.code_challenge_method, flow.user_id) == (CHALLENGE, stored, None)
    assert flow.auth_code is None


def test_the_digest_of_the_invitation_is_stored(api: Api) -> None:
    invited = factories.make_user(confirmed=False)
    token = factories.make_one_time_token(invited, TokenType.CONFIRMATION).link_token

    parameters = authorization_parameters(authorize(api, invite_token=token))

    assert token not in parameters.values()
    assert FlowState.objects.get().invite_token == crypto.hash_link_token(token)


@pytest.mark.parametrize("token_type", [None, TokenType.RECOVERY])
def test_an_invalid_invitation_is_an_error(token_type: TokenType | None, api: Api) -> None:
    token = factories.make_one_time_token(factories.make_user(), token_type).link_token if token_type else "wrong"

    assert_error(authorize(api, invite_token=token), 404, "user_not_found", "User identified by token not found")
    assert not FlowState.objects.exists()


def test_the_service_uses_pkce_with_a_provider_that_requires_it(api: Api) -> None:
    parameters = authorization_parameters(authorize(api, provider="x"))

    client_state, flow = ClientState.objects.get(), FlowState.objects.get()
    assert flow.oauth_client_state_id == client_state.id
    assert client_state.provider_type == "x"
    verifier = client_state.code_verifier or ""
    assert len(verifier) == 43
    digest = crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest())
    assert (parameters["code_challenge"], parameters["code_challenge_method"]) == (digest, "S256")


def test_a_redirect_to_that_is_not_permitted_is_not_stored(api: Api) -> None:
    assert authorize(api, redirect_to="https://evil.example").status_code == 302
    assert FlowState.objects.get().referrer == SITE


def test_no_cookie_is_set_without_flow_binding(api: Api) -> None:
    assert "Set-Cookie" not in authorize(api).headers


def test_with_flow_binding_only_the_browser_that_started_the_flow_completes_it(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"flow_binding_enabled": True}, api={"external_url": "https://auth.example.com/base"})
    state = browser.start()

    name = f"flow-{flow_states.flow_id(UUID(state))}"
    cookie = browser.client.cookies[name]
    assert (cookie["path"], cookie["max-age"], cookie["samesite"]) == ("/base/callback", 300, "None")
    assert cookie["httponly"]
    assert cookie["secure"]
    other_browser = Browser().callback(state)
    assert other_browser.status_code == 303
    assert "bad_oauth_state" in other_browser.headers["Location"]
    browser.client.cookies[name]["path"] = "/"
    assert "#access_token=" in browser.callback(state).headers["Location"]


def test_with_flow_binding_another_browser_completes_a_pkce_flow_but_no_linking(
    github: GitHub, browser: Browser, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"flow_binding_enabled": True})
    pkce = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    linking = start_link_flow(api, factories.make_session().access_token, **pkce)

    assert "bad_oauth_state" in Browser().callback(linking).headers["Location"]
    assert "?code=" in Browser().callback(browser.start(**pkce)).headers["Location"]
