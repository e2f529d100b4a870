"""Sign-in with custom providers, from /authorize to GET /user."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from accounts.models import User
from oauthproviders.models import ClientState, CustomProvider
from oauthproviders.oidc import openid_connect
from tests.accounts.administration.admin_requests import ask
from tests.conftest import Api, ChangeConfig
from tests.factories import make_user
from tests.fakes.http_peer import FakeServer, HttpPeer, MockedServer, Response, in_json
from tests.fakes.issuer import Issuer, SigningKey, at_hash
from tests.fakes.smtp import server_tls
from tests.oauthproviders.browser import SITE, Browser, assert_error_redirect, get_state
from tests.observations import assert_error, redirect_fragment, redirect_query

pytestmark = pytest.mark.django_db

RSA = SigningKey()
ADA = {"sub": "7", "name": "Ada L", "email": "Ada@example.com", "email_verified": True, "groups": ["staff"]}
UNSUPPORTED = "Unsupported provider: "


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:
    """An issuer at which Ada is signed in."""
    return use_issuer(server, auth_config)


@pytest.fixture
def issuer_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth_config: ChangeConfig) -> Iterator[Issuer]:
    """The same on loopback, with TLS."""
    context, authority = server_tls(tmp_path, host="127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    with HttpPeer(tls=context) as peer:
        yield use_issuer(peer, auth_config)


def use_issuer(server: FakeServer, auth_config: ChangeConfig) -> Issuer:
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        api={"external_url": "https://auth.example.com/"},
        custom_providers={"private_networks_enabled": True},
    )
    issuer = Issuer(server, key=RSA)
    set_token_response(issuer, id_token=issuer.token())
    server.respond(in_json(ADA), path="/userinfo")
    return issuer


def set_token_response(issuer: Issuer, **members: Any) -> None:
    issuer.server.respond(in_json({"access_token": "t", "token_type": "Bearer", **members}), path="/token")


def create_oidc_provider(api: Api, at: Issuer, **changes: Any) -> Browser:
    """Create an OpenID Connect provider and return a browser that uses it."""
    body: dict[str, Any] = {
        "provider_type": "oidc",
        "identifier": "custom:corp",
        "name": "Corp",
        "client_id": "cid",
        "client_secret": "s&c",
        "issuer": at.name,
        **changes,
    }
    response = ask(api, "POST", "/admin/custom-providers", body)
    assert response.status_code == 201, response.content
    return Browser(provider=body["identifier"])


def create_oauth2_provider(api: Api, issuer: Issuer, **changes: Any) -> Browser:
    addresses = {
        "authorization_url": f"{issuer.url}/authorize?tenant=1",
        "token_url": f"{issuer.url}/token",
        "userinfo_url": f"{issuer.url}/userinfo",
    }
    return create_oidc_provider(api, issuer, provider_type="oauth2", issuer=None, **{**addresses, **changes})


def authorization_parameters(browser: Browser, **query: str) -> dict[str, str]:
    response = browser.authorize(**query)
    assert response.status_code == 302, response.content
    pairs = parse_qsl(urlsplit(response.headers["Location"]).query, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def sign_in(api: Api, browser: Browser, **query: str) -> dict[str, Any]:
    """Sign in and return the user."""
    fragment = redirect_fragment(browser.sign_in(**query))
    response = api.get("/user", bearer=fragment["access_token"])
    assert response.status_code == 200, fragment
    user: dict[str, Any] = response.json()
    return user


PROFILE = "Error getting user profile from external provider"


def assert_profile_error(browser: Browser, text: str = PROFILE) -> None:
    assert_error_redirect(browser.sign_in(), "server_error", "unexpected_failure", text)


# Start of the flow


def test_the_authorization_url_contains_client_and_parameters(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(
        api, issuer, scopes=["email"], authorization_params={"prompt": "login", "audience": "a&b=c"}
    )
    location = browser.authorize(login_hint="ada", prompt="none").headers["Location"]
    assert location.startswith(f"{issuer.url}/authorize?")
    sent = dict(parse_qsl(urlsplit(location).query, strict_parsing=True))
    state, challenge = sent.pop("state"), sent.pop("code_challenge")
    assert (len(state), len(challenge)) == (36, 43)
    assert sent == {
        "client_id": "cid",
        "redirect_uri": "https://auth.example.com/callback",
        "response_type": "code",
        "scope": "openid email",
        "code_challenge_method": "S256",
        "prompt": "login",
        "audience": "a&b=c",
        "login_hint": "ada",
    }


def test_requested_scopes_replace_the_default_scopes(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer, scopes=["email"])
    assert authorization_parameters(browser, scopes="a  b,c")["scope"] == "openid a b,c"
    assert authorization_parameters(browser, scopes="x openid")["scope"] == "x openid"
    plain = create_oauth2_provider(api, issuer, identifier="custom:plain", scopes=["email"])
    assert authorization_parameters(plain)["scope"] == "email"
    assert authorization_parameters(plain, scopes="a b")["scope"] == "a b"
    assert authorization_parameters(plain)["tenant"] == "1"


def test_the_redirect_uri_of_custom_providers_is_configurable(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    auth_config(custom_providers={"external_url": "https://sign-in.example.com/auth"})
    sent = authorization_parameters(create_oidc_provider(api, issuer))
    assert sent["redirect_uri"] == "https://sign-in.example.com/auth/callback"


def test_pkce_can_be_disabled(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer, pkce_enabled=False)
    assert "code_challenge" not in authorization_parameters(browser)
    assert not ClientState.objects.exists()
    assert sign_in(api, browser)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("custom:unknown", "custom provider custom:unknown not found"), ("custom:", "custom provider custom: not found")],
)
def test_an_unknown_provider_is_an_error(api: Api, issuer: Issuer, name: str, reason: str) -> None:
    assert_error(Browser(provider=name).authorize(), 400, "validation_failed", UNSUPPORTED + reason)


def test_a_disabled_provider_is_an_error(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    browser = create_oidc_provider(api, issuer)
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"enabled": False})
    assert_error(browser.authorize(), 400, "validation_failed", f"{UNSUPPORTED}custom provider custom:corp is disabled")
    auth_config(custom_providers={"enabled": False})
    assert_error(browser.authorize(), 400, "validation_failed", f"{UNSUPPORTED}custom OAuth providers are disabled")


def test_a_secret_that_cannot_be_decrypted_is_an_error(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    encrypted = '{"key_id":"lost","alg":"aes-gcm-hkdf","data":"YQ==","nonce":"AAAAAAAAAAAAAAAA"}'
    CustomProvider.objects.update(client_secret=encrypted)
    text = f"{UNSUPPORTED}the secret of custom provider custom:corp cannot be read"
    assert_error(browser.authorize(), 400, "validation_failed", text)


def test_an_unavailable_issuer_is_an_error(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    issuer.server.respond(Response(status=503), path=issuer.discovery_path)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer.url}{issuer.discovery_path}" failed: status 503'
    assert_error(browser.authorize(), 400, "validation_failed", text)


# Callback with an ID token


@pytest.mark.django_db(transaction=True)
def test_a_sign_in_with_an_id_token(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    state = browser.start(redirect_to=f"{SITE}/in")
    response = browser.callback(state)

    fragment = redirect_fragment(response)
    assert response.headers["Location"].startswith(f"{SITE}/in#")
    assert (fragment["provider"], fragment["provider_token"]) == ("custom:corp", "t")
    user = api.get("/user", bearer=fragment["access_token"]).json()
    assert (user["email"], user["app_metadata"]["provider"]) == ("ada@example.com", "custom:corp")
    (identity,) = user["identities"]
    assert (identity["provider"], identity["id"]) == ("custom:corp", "7")
    assert identity["identity_data"]["iss"] == issuer.name
    (request,) = [request for request in issuer.server.received if request.path == "/token"]
    assert request.form["grant_type"] == "authorization_code"
    assert request.form["redirect_uri"] == "https://auth.example.com/callback"
    assert len(request.form["code_verifier"]) == 43
    assert request.headers["Authorization"] == "Basic Y2lkOnMlMjZj"  # cid:s%26c
    assert not [request for request in issuer.server.received if request.path == "/userinfo"]


def test_a_returning_user_gets_the_same_account(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    assert sign_in(api, browser)["id"] == sign_in(api, browser)["id"]


def test_a_verified_address_matches_an_account(api: Api, issuer: Issuer) -> None:
    user = make_user(email="ada@example.com")
    assert sign_in(api, create_oidc_provider(api, issuer))["id"] == str(user.id)


def test_a_pkce_flow_ends_in_a_session(api: Api, issuer: Issuer) -> None:
    challenge = {"code_challenge": "UKwdQNKF35xN-bd8EWuVCSHHEA2ew0BQkEPdmM6wEFM", "code_challenge_method": "s256"}
    code = redirect_query(create_oidc_provider(api, issuer).sign_in(**challenge))["code"]
    body = {"auth_code": code, "code_verifier": "4a9505b9-0857-42bb-ab3c-098b4d28ddc2"}
    response = api.post("/token?grant_type=pkce", body)
    assert (response.status_code, response.json()["provider_token"]) == (200, "t")


@pytest.mark.parametrize("aud", ["other", "cid", ["x", "other"]])
def test_acceptable_client_ids_are_accepted_audiences(api: Api, issuer: Issuer, aud: Any) -> None:
    browser = create_oidc_provider(api, issuer, acceptable_client_ids=["other"])
    set_token_response(issuer, id_token=issuer.token(aud=aud))
    assert sign_in(api, browser)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "other"},
        {"iss": "https://id.example.com"},
        {"exp": 1},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "a\0b"},
        {"key": SigningKey()},
    ],
)
def test_an_invalid_id_token_is_an_error(api: Api, issuer: Issuer, changes: dict[str, Any]) -> None:
    browser = create_oidc_provider(api, issuer)
    set_token_response(issuer, id_token=issuer.token(**changes))
    assert_profile_error(browser)


def test_at_hash_is_not_checked(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    set_token_response(issuer, id_token=issuer.token(at_hash=at_hash("another")))
    assert sign_in(api, browser)


def test_userinfo_is_read_without_an_id_token(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    set_token_response(issuer)
    assert sign_in(api, browser)["email"] == "ada@example.com"
    (request,) = [request for request in issuer.server.received if request.path == "/userinfo"]
    assert request.headers["Authorization"] == "Bearer t"


def test_neither_an_id_token_nor_userinfo_is_an_error(api: Api, issuer: Issuer) -> None:
    issuer.publish_discovery(userinfo_endpoint=None)
    browser = create_oidc_provider(api, issuer)
    set_token_response(issuer)
    assert_profile_error(browser)


def test_claim_mapping_does_not_change_the_address_of_an_id_token(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(
        api, issuer, custom_claims_allowlist=["groups"], attribute_mapping={"nickname": "name", "email": "sub"}
    )
    set_token_response(issuer, id_token=issuer.token(groups=["staff"], secret="x"))
    user = sign_in(api, browser)
    identity_data = user["identities"][0]["identity_data"]
    assert (identity_data["custom_claims"], identity_data["nickname"], user["email"]) == (
        {"groups": ["staff"]},
        "Ada L",
        "ada@example.com",
    )
    assert "secret" not in identity_data


def test_the_id_token_grant_signs_in_the_same_user(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer, attribute_mapping={"sub": "email"}, custom_claims_allowlist=["groups"])
    set_token_response(issuer, id_token=issuer.token(groups=["staff"]))
    first = sign_in(api, browser)
    body = {"provider": "custom:corp", "id_token": issuer.token(groups=["all"])}
    response = api.post("/token?grant_type=id_token", body)
    assert response.status_code == 200, response.content
    second = response.json()["user"]
    assert second["id"] == first["id"]
    assert second["identities"][0]["identity_data"]["custom_claims"] == {"groups": ["all"]}


def test_errors_of_the_id_token_grant(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    create_oidc_provider(api, issuer)
    create_oauth2_provider(api, issuer, identifier="custom:plain")

    def error(provider: str, **parameters: Any) -> tuple[str, str]:
        body = {"provider": provider, "id_token": issuer.token(), **parameters}
        response = api.post("/token?grant_type=id_token", body).json()
        return response["error_code"], response["msg"]

    invalid = "validation_failed"
    assert error("custom:unknown") == (invalid, 'Custom provider "custom:unknown" not found')
    assert error("custom:plain") == (invalid, 'Provider "custom:plain" is not an OIDC provider')
    wrong = "Provided issuer does not match ID token issuer"
    assert error("custom:corp", issuer="https://id.example.com") == (invalid, wrong)
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"enabled": False})
    assert error("custom:corp") == ("provider_disabled", 'Custom provider "custom:corp" is disabled')
    auth_config(custom_providers={"enabled": False})
    assert error("custom:corp") == (invalid, "Custom OAuth providers are disabled")


def test_the_nonce_check_can_be_disabled(api: Api, issuer: Issuer) -> None:
    create_oidc_provider(api, issuer)
    body = {"provider": "custom:corp", "id_token": issuer.token(nonce="other")}
    assert api.post("/token?grant_type=id_token", body).status_code == 400
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"skip_nonce_check": True})
    assert api.post("/token?grant_type=id_token", body).status_code == 200


# Deadlines


def test_the_calls_of_a_callback_share_a_deadline(api: Api, issuer_peer: Issuer, auth_config: ChangeConfig) -> None:
    browser = create_oidc_provider(api, issuer_peer)
    state = browser.start()
    auth_config(api={"max_request_duration": timedelta(seconds=2)})
    openid_connect.clear_caches()
    issuer_peer.delay = 0.6
    issuer_peer.publish_discovery()
    token = in_json({"access_token": "t", "token_type": "Bearer", "id_token": issuer_peer.token()})
    issuer_peer.server.respond(dataclasses.replace(token, delay=0.6), path="/token")
    issuer_peer.server.respond(Response(hang=True), path=issuer_peer.keys_path)
    assert_error_redirect(browser.callback(state), "server_error", "unexpected_failure", PROFILE)


def test_an_issuer_that_hangs_is_an_error(api: Api, issuer_peer: Issuer, auth_config: ChangeConfig) -> None:
    browser = create_oidc_provider(api, issuer_peer)
    openid_connect.clear_caches()
    auth_config(api={"max_request_duration": timedelta(seconds=1)})
    issuer_peer.server.respond(Response(hang=True), path=issuer_peer.discovery_path)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer_peer.url}{issuer_peer.discovery_path}" failed: timed out'
    assert_error(browser.authorize(), 400, "validation_failed", text)


# Callback with an access token


def test_a_sign_in_with_oauth2_and_userinfo(api: Api, issuer: Issuer) -> None:
    browser = create_oauth2_provider(
        api, issuer, custom_claims_allowlist=["groups"], attribute_mapping={"nickname": "name", "role_": "name"}
    )
    user = sign_in(api, browser)
    assert user["email"] == "ada@example.com"
    assert user["identities"][0]["identity_data"] == {
        "sub": "7",
        "name": "Ada L",
        "nickname": "Ada L",
        "email": "ada@example.com",
        "email_verified": True,
        "phone_verified": False,
        "custom_claims": {"groups": ["staff"]},
    }


@pytest.mark.parametrize("own", [None, "ada@example.com"])
def test_a_mapped_address_is_not_verified(api: Api, issuer: Issuer, auth_config: ChangeConfig, own: str | None) -> None:
    other = make_user(email="ada@example.org")
    issuer.server.respond(in_json({**ADA, "email": own, "preferred_username": "ada@example.org"}), path="/userinfo")
    browser = create_oauth2_provider(api, issuer, attribute_mapping={"email": "preferred_username"})
    text = "Unverified email with custom:corp. Verify the email with custom:corp in order to sign in"
    assert_error_redirect(browser.sign_in(), "access_denied", "provider_email_needs_verification", text)
    assert [identity.provider for identity in other.identities.all()] == ["email"]

    User.objects.all().delete()
    auth_config(mailer={"allow_unverified_email_sign_ins": True})
    user = sign_in(api, browser)
    assert (user["email"], user["new_email"]) == ("", "ada@example.org")
    assert "email_confirmed_at" not in user


@pytest.mark.parametrize(
    "response",
    [
        Response(status=500),
        Response(status=401),
        Response(status=302, headers={"Location": "https://8.8.8.8/"}),
        Response(body=b"<html>"),
        in_json([]),
        in_json({"name": "Ada L"}),
        in_json({"sub": "", "email": "ada@example.com", "email_verified": True}),
        in_json({"sub": {"a": 1}}),
        Response(body=b" " * 2_000_000),
    ],
)
def test_an_invalid_userinfo_response_is_an_error(api: Api, issuer: Issuer, response: Response) -> None:
    browser = create_oauth2_provider(api, issuer)
    issuer.server.respond(response, path="/userinfo")
    assert_profile_error(browser)


def test_a_closed_connection_is_an_error(api: Api, issuer_peer: Issuer) -> None:
    browser = create_oauth2_provider(api, issuer_peer)
    issuer_peer.server.respond(Response(close=True, raw=b""), path="/userinfo")
    assert_profile_error(browser)


def test_an_address_is_required_unless_it_is_optional(api: Api, issuer: Issuer) -> None:
    browser = create_oauth2_provider(api, issuer)
    issuer.server.respond(in_json({"sub": "8"}), path="/userinfo")
    assert_profile_error(browser, "Error getting user email from external provider")
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"email_optional": True})
    assert sign_in(api, browser)["email"] == ""


# Private addresses and changes


def test_a_url_that_resolves_to_a_private_address_is_not_called(
    api: Api, issuer_peer: Issuer, auth_config: ChangeConfig
) -> None:
    plain = create_oauth2_provider(api, issuer_peer, identifier="custom:plain")
    browser = create_oidc_provider(api, issuer_peer)
    state = get_state(plain.authorize().headers["Location"])
    auth_config(custom_providers={"private_networks_enabled": False})
    before = len(issuer_peer.server.received)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer_peer.url}{issuer_peer.discovery_path}" failed: '
    assert_error(browser.authorize(), 400, "validation_failed", f"{text}the host has no public address")
    response = plain.callback(state)
    assert_error_redirect(response, "server_error", "unexpected_failure", "Unable to exchange external code: auth")
    assert len(issuer_peer.server.received) == before


def test_a_change_of_the_provider_takes_effect_at_once(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    sign_in(api, browser)
    issuer.publish_discovery(authorization_endpoint=f"{issuer.url}/new")
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"name": "Other"})
    assert browser.authorize().headers["Location"].startswith(f"{issuer.url}/new?")


def test_a_pending_flow_of_a_deleted_provider_is_an_error(api: Api, issuer: Issuer) -> None:
    browser = create_oidc_provider(api, issuer)
    state = browser.start()
    ask(api, "DELETE", "/admin/custom-providers/custom:corp")
    assert_error_redirect(
        browser.callback(state),
        "invalid_request",
        "oauth_provider_not_supported",
        f"{UNSUPPORTED}custom provider custom:corp not found",
    )
