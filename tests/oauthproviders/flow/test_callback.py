"""GET and POST /callback: sign-ins, the state, addresses, and the redirects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.security import crypto
from oauthproviders.models import ClientState
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import CHALLENGE, VERIFIER
from tests.oauthproviders.browser import (
    REDIRECT_URI,
    SITE,
    TOKEN_PATH,
    Browser,
    GitHub,
    assert_error_redirect,
    parse_location,
    provider_settings,
)
from tests.observations import audit_trail, redirect_fragment
from tokens.models import FlowState, Session

pytestmark = pytest.mark.django_db

PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}


def assert_site_redirect(
    response: Any, error_code: str, text: str, *, error: str = "invalid_request", site: str = SITE
) -> None:
    """Assert a redirect to the site with this error in the query, as for an unknown flow."""
    parameters = [("error", error), ("error_code", error_code), ("error_description", text)]
    assert (response.status_code, parse_location(response)) == (303, (site, parameters, []))
    assert "#" not in response.headers["Location"]
    assert response.content == b""


# Sign-in


def test_the_first_sign_in_creates_an_account(github: GitHub, browser: Browser, api: Api) -> None:
    response = browser.sign_in(redirect_to=f"{SITE}/in")

    assert (response.status_code, response.content, parse_location(response)[:2]) == (302, b"", (f"{SITE}/in", []))
    assert response.headers["Cache-Control"] == "no-store"
    fragment = redirect_fragment(response)
    user, identity = User.objects.get(), Identity.objects.get()
    assert set(fragment) == {
        "access_token", "expires_at", "expires_in", "provider", "provider_token", "refresh_token", "sb", "token_type",
    }  # fmt: skip
    assert (fragment["provider"], fragment["provider_token"], fragment["sb"], fragment["token_type"]) == (
        "github", "gho_x", "", "bearer",
    )  # fmt: skip
    identity_data = {
        "iss": "https://provider.example.com/api/v3", "sub": "7", "name": "Ada L", "preferred_username": "ada",
        "full_name": "Ada L", "avatar_url": "https://img.example/a.png", "provider_id": "7", "user_name": "ada",
        "email": "ada@example.com", "email_verified": True, "phone_verified": False,
    }  # fmt: skip
    assert (identity.provider, identity.provider_id, identity.user_id, identity.email, identity.identity_data) == (
        "github", "7", user.id, "ada@example.com", identity_data,
    )  # fmt: skip
    assert (user.email, user.password, user.aud, user.role) == (
        "ada@example.com", None, "authenticated", "authenticated",
    )  # fmt: skip
    assert user.raw_user_meta_data == identity_data
    assert user.raw_app_meta_data == {"provider": "github", "providers": ["github"]}
    assert user.email_confirmed_at == user.last_sign_in_at == user.created_at
    assert (user.is_sso_user, user.is_anonymous) == (False, False)
    assert not FlowState.objects.exists()
    assert audit_trail() == [("user_signedup", {"provider": "github"})]
    me = api.get("/user", bearer=fragment["access_token"]).json()
    assert (me["id"], me["identities"][0]["identity_data"]) == (str(user.id), identity_data)
    assert Session.objects.get().amr_claims.get().authentication_method == "oauth"


def test_requests_to_the_provider_contain_only_code_and_credentials(github: GitHub, browser: Browser) -> None:
    browser.sign_in()

    exchange, user, emails = github.server.received
    assert (exchange.method, exchange.path, exchange.headers["Accept"]) == ("POST", TOKEN_PATH, "application/json")
    assert exchange.form == {"grant_type": "authorization_code", "code": "authcode", "redirect_uri": REDIRECT_URI}
    assert exchange.headers["Authorization"] == "Basic Y2lkOnNlYw=="
    assert [request.headers["Authorization"] for request in (user, emails)] == ["Bearer gho_x"] * 2
    assert [request.method for request in (user, emails)] == ["GET", "GET"]


def test_a_returning_user_signs_in_and_the_identity_is_updated(github: GitHub, browser: Browser) -> None:
    browser.sign_in()
    before = Identity.objects.get()
    github.set_user("new@example.com", name="Ada Lovelace")

    response = browser.sign_in()

    assert "access_token" in redirect_fragment(response)
    user, identity = User.objects.get(), Identity.objects.get()
    assert user.email == "ada@example.com"
    assert user.raw_user_meta_data == identity.identity_data
    assert (identity.id, identity.email, identity.identity_data["name"]) == (
        before.id, "new@example.com", "Ada Lovelace",
    )  # fmt: skip
    assert before.last_sign_in_at is not None
    assert identity.last_sign_in_at is not None
    assert identity.last_sign_in_at > before.last_sign_in_at
    assert audit_trail()[1:] == [("login", {"provider": "github"})]
    assert Session.objects.count() == 2


@pytest.mark.parametrize("refresh_token", [{"refresh_token": "ghr_y"}, {}])
def test_the_redirect_contains_the_refresh_token_of_the_provider(
    refresh_token: dict[str, str], github: GitHub, browser: Browser
) -> None:
    github.set_token_response({"access_token": "gho_x", **refresh_token})

    assert redirect_fragment(browser.sign_in()).get("provider_refresh_token") == refresh_token.get("refresh_token")


def test_the_configured_redirect_url_overrides_redirect_to(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"redirect_url": "myapp://home"})

    response = browser.sign_in(redirect_to=f"{SITE}/in")

    assert response.headers["Location"].startswith("myapp://home#access_token=")


def test_the_fragment_of_redirect_to_precedes_the_tokens(github: GitHub, browser: Browser) -> None:
    response = browser.sign_in(redirect_to=f"{SITE}/in?x=1#top")

    assert response.headers["Location"].startswith(f"{SITE}/in?x=1#top&access_token=")


def test_the_callback_accepts_a_form(github: GitHub, browser: Browser) -> None:
    state = browser.start()

    response: Any = Client(enforce_csrf_checks=True).post(
        "/callback?code=of-the-query&state=x",
        urlencode({"state": state, "code": "of-the-form"}),
        content_type="application/x-www-form-urlencoded",
    )

    assert "access_token" in redirect_fragment(response)
    assert github.server.received[0].form["code"] == "of-the-form"


# PKCE


@pytest.mark.parametrize(
    ("challenge", "method", "verifier"), [(CHALLENGE, "s256", VERIFIER), (VERIFIER * 2, "plain", VERIFIER * 2)]
)
def test_with_pkce_the_redirect_contains_a_code(
    challenge: str, method: str, verifier: str, github: GitHub, browser: Browser, api: Api
) -> None:
    github.set_token_response({"access_token": "gho_x", "refresh_token": "ghr_y"})
    state = browser.start(code_challenge=challenge, code_challenge_method=method, redirect_to=f"{SITE}/in?z=1&a=2#top")

    response = browser.callback(state)

    flow, user = FlowState.objects.get(), User.objects.get()
    code = response.headers["Location"].partition("&code=")[2].partition("&")[0]
    assert (response.status_code, response.headers["Location"]) == (302, f"{SITE}/in?a=2&code={code}&z=1#top")
    assert (flow.user_id, flow.auth_code) == (user.id, crypto.hash_auth_code(code))
    assert not {"gho_x", "ghr_y"} & {flow.provider_access_token, flow.provider_refresh_token}
    assert flow.auth_code_issued_at is not None
    assert user.last_sign_in_at is None
    assert not Session.objects.exists()
    body = {"auth_code": code, "code_verifier": verifier}
    exchanged = api.post("/token?grant_type=pkce", body)
    assert exchanged.status_code == 200
    tokens = exchanged.json()
    assert (tokens["user"]["id"], tokens["provider_token"], tokens["provider_refresh_token"]) == (
        str(user.id), "gho_x", "ghr_y",
    )  # fmt: skip
    assert not FlowState.objects.exists()
    assert audit_trail() == [("user_signedup", {"provider": "github"}), ("login", {"provider_type": "github"})]


def test_a_state_with_pkce_is_valid_for_one_callback(github: GitHub, browser: Browser) -> None:
    state = browser.start(**PKCE)
    browser.callback(state)

    assert_site_redirect(browser.callback(state), "flow_state_already_used", "State has already been used")


def test_a_state_without_pkce_is_valid_for_one_callback(github: GitHub, browser: Browser) -> None:
    state = browser.start()
    browser.callback(state)

    assert_site_redirect(browser.callback(state), "bad_oauth_state", "OAuth state not found or expired")
    assert Session.objects.count() == 1


# The state


@pytest.mark.parametrize(
    ("query", "error_code", "text"),
    [
        ("", "bad_oauth_callback", "OAuth state parameter missing"),
        ("state=abc&code=x", "bad_oauth_state", "OAuth state parameter is invalid"),
        ("state=6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11&code=x", "bad_oauth_state", "OAuth state not found or expired"),
        (
            "state=6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11&error=access_denied",
            "bad_oauth_state",
            "OAuth state not found or expired",
        ),
    ],
)
def test_an_unknown_state_redirects_to_the_site(
    query: str, error_code: str, text: str, github: GitHub, api: Api
) -> None:
    assert_site_redirect(api.get(f"/callback?{query}"), error_code, text)
    assert github.server.received == []


def test_the_redirect_keeps_the_query_of_the_site_url(github: GitHub, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(site={"url": f"{SITE}/in?x=1"})

    location = api.get("/callback").headers["Location"]

    assert location == (
        f"{SITE}/in?error=invalid_request&error_code=bad_oauth_callback"
        "&error_description=OAuth+state+parameter+missing&x=1"
    )


@pytest.mark.parametrize(("age", "is_valid"), [(299, True), (301, False)])
def test_a_state_expires(age: int, is_valid: bool, github: GitHub, browser: Browser) -> None:
    state = browser.start()
    factories.backdate(FlowState.objects.get(), by=timedelta(seconds=age))

    response = browser.callback(state)

    if is_valid:
        assert "access_token" in redirect_fragment(response)
    else:
        assert_site_redirect(response, "bad_oauth_state", "OAuth state has expired")


def test_the_id_of_an_email_flow_is_not_a_valid_state(github: GitHub, browser: Browser) -> None:
    flow = factories.make_flow(factories.make_user(), user_id=None)

    assert_site_redirect(browser.callback(str(flow.id)), "bad_oauth_state", "OAuth state not found or expired")


# The PKCE verifier of this service


@pytest.fixture
def state_with_secret(github: GitHub, browser: Browser) -> str:
    """The state of a flow with a PKCE verifier for the provider."""
    state = browser.start()
    client_state = ClientState.objects.create(provider_type="github", code_verifier="v" * 43, created_at=timezone.now())
    FlowState.objects.update(oauth_client_state_id=client_state.id)
    return state


def test_the_code_verifier_is_sent_and_deleted(state_with_secret: str, github: GitHub, browser: Browser) -> None:
    assert "access_token" in redirect_fragment(browser.callback(state_with_secret))
    assert github.server.received[0].form["code_verifier"] == "v" * 43
    assert not ClientState.objects.exists()


@pytest.mark.parametrize(
    ("change", "error", "error_code", "text"),
    [
        ({"id": uuid4()}, "server_error", "oauth_client_state_not_found", "OAuth state not found"),
        ({"provider_type": "x"}, "invalid_request", "oauth_invalid_state", "OAuth provider mismatch"),
        ({"age": 301}, "server_error", "oauth_client_state_expired", "OAuth state expired"),
    ],
)
def test_an_invalid_client_state_is_an_error(
    change: dict[str, Any], error: str, error_code: str, text: str, state_with_secret: str, github: GitHub,
    browser: Browser, auth_config: ChangeConfig,
) -> None:  # fmt: skip
    auth_config(flows={"expiry": timedelta(hours=1)})
    if "age" in change:
        factories.backdate(ClientState.objects.get(), by=timedelta(seconds=change["age"]))
    else:
        ClientState.objects.update(**change)

    assert_error_redirect(browser.callback(state_with_secret), error, error_code, text)
    assert github.server.received == []
    assert not User.objects.exists()


def test_a_provider_that_requires_pkce_is_not_called_without_a_verifier(
    browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(site={"url": SITE}, providers={"x": provider_settings()})
    browser.provider = "x"
    state = browser.start()
    FlowState.objects.update(oauth_client_state_id=None)

    assert_error_redirect(
        browser.callback(state), "invalid_request", "oauth_invalid_state", "OAuth PKCE code verifier missing"
    )


# Addresses


@pytest.mark.parametrize("is_optional", [False, True])
def test_a_profile_without_an_address_is_valid_only_if_email_is_optional(
    is_optional: bool, github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(providers={"github": provider_settings(url=github.server.url, email_optional=is_optional)})
    github.set_user()

    response = browser.sign_in()

    if not is_optional:
        text = "Error getting user email from external provider"
        assert_error_redirect(response, "server_error", "unexpected_failure", text)
        assert not User.objects.exists()
        return
    assert "access_token" in redirect_fragment(response)
    user = User.objects.get()
    assert (user.email, user.email_confirmed_at) == (None, None)
    assert audit_trail() == [("login", {"provider": "github"})]
    assert "access_token" in redirect_fragment(browser.sign_in())


def test_email_optional_is_read_when_the_flow_starts(
    github: GitHub, browser: Browser, auth_config: ChangeConfig
) -> None:
    auth_config(providers={"github": provider_settings(url=github.server.url, email_optional=True)})
    state = browser.start()
    auth_config(providers={"github": provider_settings(url=github.server.url)})
    github.set_user()

    assert "access_token" in redirect_fragment(browser.callback(state))


@pytest.mark.parametrize(
    "email", ["", "no-domain", "a@b@c", "a b@example.com", f"{'a' * 250}@example.com", "ä@example.com"]
)
def test_an_invalid_address_counts_as_absent(email: str, github: GitHub, browser: Browser) -> None:
    github.set_user(email)

    assert_error_redirect(
        browser.sign_in(), "server_error", "unexpected_failure", "Error getting user email from external provider"
    )


def test_another_subject_is_another_user(github: GitHub, browser: Browser) -> None:
    browser.sign_in()
    github.set_user("bob@example.com", id=8)

    browser.sign_in()

    assert User.objects.count() == 2


def test_other_methods_are_not_allowed(api: Api) -> None:
    assert api.put("/callback").status_code == 405


def test_a_body_that_is_not_a_form_is_an_error(github: GitHub) -> None:
    response: Any = Client().post("/callback", b"\xff\xfe=%%%&" * 10, content_type="text/plain")

    assert_site_redirect(response, "bad_oauth_callback", "OAuth state parameter missing")
