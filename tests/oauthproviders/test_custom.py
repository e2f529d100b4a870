"""Signing in at a provider that an administrator has defined, from /authorize to GET /user."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from accounts.models import User
from oauthproviders.base import backends
from oauthproviders.models import ClientState, CustomProvider
from oauthproviders.oidc import openid_connect
from tests.accounts.administration.admin_requests import ask
from tests.conftest import Api, ChangeConfig
from tests.factories import make_user
from tests.fakes.http_peer import Answer, HttpPeer, in_json
from tests.fakes.issuer import Issuer, SigningKey, at_hash
from tests.fakes.smtp import server_tls
from tests.oauthproviders.browser import SITE, Browser, refused_with, state_of
from tests.observations import assert_error, redirect_fragment, redirect_query

pytestmark = pytest.mark.django_db

RSA = SigningKey()
ADA = {"sub": "7", "name": "Ada L", "email": "Ada@example.com", "email_verified": True, "groups": ["staff"]}
UNSUPPORTED = "Unsupported provider: "


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    openid_connect.clear_caches()
    backends._uses_body.clear()
    yield
    openid_connect.clear_caches()


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth_config: ChangeConfig) -> Iterator[Issuer]:
    """One inside the operator's network, at which Ada is signed in."""
    context, authority = server_tls(tmp_path, host="127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    auth_config(
        site={"url": SITE, "allow_list": (f"{SITE}/**",)},
        api={"external_url": "https://auth.example.com/"},
        custom_providers={"private_networks_enabled": True},
    )
    with HttpPeer(tls=context) as peer:
        made = Issuer(peer, key=RSA)
        gives(made, id_token=made.token())
        peer.answer(in_json(ADA), path="/userinfo")
        yield made


def gives(issuer: Issuer, **members: Any) -> None:
    issuer.server.answer(in_json({"access_token": "t", "token_type": "Bearer", **members}), path="/token")


def define(api: Api, at: Issuer, **changes: Any) -> Browser:
    """A provider at this issuer, and a browser that goes there."""
    body: dict[str, Any] = {
        "provider_type": "oidc",
        "identifier": "custom:corp",
        "name": "Corp",
        "client_id": "cid",
        "client_secret": "s&c",
        "issuer": at.name,
        **changes,
    }
    answer = ask(api, "POST", "/admin/custom-providers", body)
    assert answer.status_code == 201, answer.content
    return Browser(provider=body["identifier"])


def define_plain(api: Api, issuer: Issuer, **changes: Any) -> Browser:
    addresses = {
        "authorization_url": f"{issuer.url}/authorize?tenant=1",
        "token_url": f"{issuer.url}/token",
        "userinfo_url": f"{issuer.url}/userinfo",
    }
    return define(api, issuer, provider_type="oauth2", issuer=None, **{**addresses, **changes})


def asked_of_provider(browser: Browser, **query: str) -> dict[str, str]:
    answer = browser.ask(**query)
    assert answer.status_code == 302, answer.content
    pairs = parse_qsl(urlsplit(answer.headers["Location"]).query, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def signed_in(api: Api, browser: Browser, **query: str) -> dict[str, Any]:
    """The user, as the client sees them afterwards."""
    landed = redirect_fragment(browser.sign_in(**query))
    answer = api.get("/user", bearer=landed["access_token"])
    assert answer.status_code == 200, landed
    user: dict[str, Any] = answer.json()
    return user


PROFILE = "Error getting user profile from external provider"


def refused_profile(browser: Browser, text: str = PROFILE) -> None:
    refused_with(browser.sign_in(), "server_error", "unexpected_failure", text)


# --- the way there ----------------------------------------------------------------------------------------------------


def test_the_provider_is_told_who_asks(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer, scopes=["email"], authorization_params={"prompt": "login", "audience": "a&b=c"})
    location = browser.ask(login_hint="ada", prompt="none").headers["Location"]
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


def test_a_client_may_ask_for_other_scopes(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer, scopes=["email"])
    assert asked_of_provider(browser, scopes="a  b,c")["scope"] == "openid a b,c"
    assert asked_of_provider(browser, scopes="x openid")["scope"] == "x openid"
    plain = define_plain(api, issuer, identifier="custom:plain", scopes=["email"])
    assert asked_of_provider(plain)["scope"] == "email"
    assert asked_of_provider(plain, scopes="a b")["scope"] == "a b"
    assert asked_of_provider(plain)["tenant"] == "1"


def test_the_callback_may_have_an_address_of_its_own(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"external_url": "https://sign-in.example.com/auth"})
    sent = asked_of_provider(define(api, issuer))
    assert sent["redirect_uri"] == "https://sign-in.example.com/auth/callback"


def test_a_proof_of_the_same_browser_can_be_left_out(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer, pkce_enabled=False)
    assert "code_challenge" not in asked_of_provider(browser)
    assert not ClientState.objects.exists()
    assert signed_in(api, browser)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("custom:nobody", "custom provider custom:nobody not found"), ("custom:", "custom provider custom: not found")],
)
def test_a_provider_that_is_not_there_is_refused(api: Api, issuer: Issuer, name: str, reason: str) -> None:
    assert_error(Browser(provider=name).ask(), 400, "validation_failed", UNSUPPORTED + reason)


def test_a_provider_that_is_off_is_refused(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    browser = define(api, issuer)
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"enabled": False})
    assert_error(browser.ask(), 400, "validation_failed", f"{UNSUPPORTED}custom provider custom:corp is disabled")
    auth_config(custom_providers={"enabled": False})
    assert_error(browser.ask(), 400, "validation_failed", f"{UNSUPPORTED}custom OAuth providers are disabled")


def test_a_secret_that_cannot_be_read_is_said_so(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    sealed = '{"key_id":"lost","alg":"aes-gcm-hkdf","data":"YQ==","nonce":"AAAAAAAAAAAAAAAA"}'
    CustomProvider.objects.update(client_secret=sealed)
    text = f"{UNSUPPORTED}the secret of custom provider custom:corp cannot be read"
    assert_error(browser.ask(), 400, "validation_failed", text)


def test_an_issuer_that_is_down_lets_nobody_set_out(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    issuer.server.answer(Answer(status=503), path=issuer.discovery_path)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer.url}{issuer.discovery_path}" failed: status 503'
    assert_error(browser.ask(), 400, "validation_failed", text)


# --- back with an ID token --------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_somebody_signs_in_by_openid_connect(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    state = browser.depart(redirect_to=f"{SITE}/in")
    answer = browser.come_back(state)

    landed = redirect_fragment(answer)
    assert answer.headers["Location"].startswith(f"{SITE}/in#")
    assert (landed["provider"], landed["provider_token"]) == ("custom:corp", "t")
    user = api.get("/user", bearer=landed["access_token"]).json()
    assert (user["email"], user["app_metadata"]["provider"]) == ("ada@example.com", "custom:corp")
    (identity,) = user["identities"]
    assert (identity["provider"], identity["id"]) == ("custom:corp", "7")
    assert identity["identity_data"]["iss"] == issuer.name
    (asked,) = [each for each in issuer.server.received if each.path == "/token"]
    assert asked.form["grant_type"] == "authorization_code"
    assert asked.form["redirect_uri"] == "https://auth.example.com/callback"
    assert len(asked.form["code_verifier"]) == 43
    assert asked.headers["Authorization"] == "Basic Y2lkOnMlMjZj"  # cid:s%26c
    assert not [each for each in issuer.server.received if each.path == "/userinfo"]


def test_the_same_person_comes_back(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    assert signed_in(api, browser)["id"] == signed_in(api, browser)["id"]


def test_a_verified_address_leads_to_its_account(api: Api, issuer: Issuer) -> None:
    user = make_user(email="ada@example.com")
    assert signed_in(api, define(api, issuer))["id"] == str(user.id)


def test_a_code_flow_with_pkce_ends_in_a_session(api: Api, issuer: Issuer) -> None:
    challenge = {"code_challenge": "UKwdQNKF35xN-bd8EWuVCSHHEA2ew0BQkEPdmM6wEFM", "code_challenge_method": "s256"}
    code = redirect_query(define(api, issuer).sign_in(**challenge))["code"]
    body = {"auth_code": code, "code_verifier": "4a9505b9-0857-42bb-ab3c-098b4d28ddc2"}
    answer = api.post("/token?grant_type=pkce", body)
    assert (answer.status_code, answer.json()["provider_token"]) == (200, "t")


@pytest.mark.parametrize("aud", ["other", "cid", ["x", "other"]])
def test_an_app_of_the_same_provider_may_be_ours_too(api: Api, issuer: Issuer, aud: Any) -> None:
    browser = define(api, issuer, acceptable_client_ids=["other"])
    gives(issuer, id_token=issuer.token(aud=aud))
    assert signed_in(api, browser)


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
def test_an_id_token_that_does_not_hold_lets_nobody_in(api: Api, issuer: Issuer, changes: dict[str, Any]) -> None:
    browser = define(api, issuer)
    gives(issuer, id_token=issuer.token(**changes))
    refused_profile(browser)


def test_the_hash_of_the_access_token_is_not_looked_at(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    gives(issuer, id_token=issuer.token(at_hash=at_hash("another")))
    assert signed_in(api, browser)


def test_without_an_id_token_the_userinfo_counts(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    gives(issuer)
    assert signed_in(api, browser)["email"] == "ada@example.com"
    (asked,) = [each for each in issuer.server.received if each.path == "/userinfo"]
    assert asked.headers["Authorization"] == "Bearer t"


def test_with_neither_nobody_comes_in(api: Api, issuer: Issuer) -> None:
    issuer.publish_discovery(userinfo_endpoint=None)
    browser = define(api, issuer)
    gives(issuer)
    refused_profile(browser)


def test_claims_are_picked_and_renamed_but_not_the_address_of_an_id_token(api: Api, issuer: Issuer) -> None:
    browser = define(
        api, issuer, custom_claims_allowlist=["groups"], attribute_mapping={"nickname": "name", "email": "sub"}
    )
    gives(issuer, id_token=issuer.token(groups=["staff"], secret="x"))
    user = signed_in(api, browser)
    said = user["identities"][0]["identity_data"]
    assert (said["custom_claims"], said["nickname"], user["email"]) == (
        {"groups": ["staff"]},
        "Ada L",
        "ada@example.com",
    )
    assert "secret" not in said


def test_the_same_person_by_id_token_alone(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer, attribute_mapping={"sub": "email"}, custom_claims_allowlist=["groups"])
    gives(issuer, id_token=issuer.token(groups=["staff"]))
    first = signed_in(api, browser)
    body = {"provider": "custom:corp", "id_token": issuer.token(groups=["all"])}
    answer = api.post("/token?grant_type=id_token", body)
    assert answer.status_code == 200, answer.content
    second = answer.json()["user"]
    assert second["id"] == first["id"]
    assert second["identities"][0]["identity_data"]["custom_claims"] == {"groups": ["all"]}


def test_what_an_id_token_grant_asks_of_a_provider(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    define(api, issuer)
    define_plain(api, issuer, identifier="custom:plain")

    def told(provider: str, **given: Any) -> tuple[str, str]:
        body = {"provider": provider, "id_token": issuer.token(), **given}
        said = api.post("/token?grant_type=id_token", body).json()
        return said["error_code"], said["msg"]

    invalid = "validation_failed"
    assert told("custom:nobody") == (invalid, 'Custom provider "custom:nobody" not found')
    assert told("custom:plain") == (invalid, 'Provider "custom:plain" is not an OIDC provider')
    wrong = "Provided issuer does not match ID token issuer"
    assert told("custom:corp", issuer="https://id.example.com") == (invalid, wrong)
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"enabled": False})
    assert told("custom:corp") == ("provider_disabled", 'Custom provider "custom:corp" is disabled')
    auth_config(custom_providers={"enabled": False})
    assert told("custom:corp") == (invalid, "Custom OAuth providers are disabled")


def test_a_nonce_may_be_left_unchecked(api: Api, issuer: Issuer) -> None:
    define(api, issuer)
    body = {"provider": "custom:corp", "id_token": issuer.token(nonce="its own")}
    assert api.post("/token?grant_type=id_token", body).status_code == 400
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"skip_nonce_check": True})
    assert api.post("/token?grant_type=id_token", body).status_code == 200


# --- how long it may take ---------------------------------------------------------------------------------------------


def test_all_that_is_asked_on_the_way_back_has_one_measure_of_time(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    browser = define(api, issuer)
    state = browser.depart()
    auth_config(api={"max_request_duration": timedelta(seconds=2)})
    openid_connect.clear_caches()
    issuer.delay = 0.6
    issuer.publish_discovery()
    token = in_json({"access_token": "t", "token_type": "Bearer", "id_token": issuer.token()})
    issuer.server.answer(dataclasses.replace(token, delay=0.6), path="/token")
    issuer.server.answer(Answer(hang=True), path=issuer.keys_path)
    refused_with(browser.come_back(state), "server_error", "unexpected_failure", PROFILE)


def test_an_issuer_that_hangs_lets_nobody_set_out(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    browser = define(api, issuer)
    openid_connect.clear_caches()
    auth_config(api={"max_request_duration": timedelta(seconds=1)})
    issuer.server.answer(Answer(hang=True), path=issuer.discovery_path)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer.url}{issuer.discovery_path}" failed: timed out'
    assert_error(browser.ask(), 400, "validation_failed", text)


# --- back with an access token ----------------------------------------------------------------------------------------


def test_somebody_signs_in_by_plain_oauth(api: Api, issuer: Issuer) -> None:
    browser = define_plain(
        api, issuer, custom_claims_allowlist=["groups"], attribute_mapping={"nickname": "name", "role_": "name"}
    )
    user = signed_in(api, browser)
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
def test_the_address_may_be_another_claim_which_nobody_has_verified(
    api: Api, issuer: Issuer, auth_config: ChangeConfig, own: str | None
) -> None:
    victim = make_user(email="ada@example.org")
    issuer.server.answer(in_json({**ADA, "email": own, "preferred_username": "ada@example.org"}), path="/userinfo")
    browser = define_plain(api, issuer, attribute_mapping={"email": "preferred_username"})
    text = "Unverified email with custom:corp. Verify the email with custom:corp in order to sign in"
    refused_with(browser.sign_in(), "access_denied", "provider_email_needs_verification", text)
    assert [each.provider for each in victim.identities.all()] == ["email"]

    User.objects.all().delete()
    auth_config(mailer={"allow_unverified_email_sign_ins": True})
    user = signed_in(api, browser)
    assert user["email"] == "ada@example.org"
    assert "email_confirmed_at" not in user


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(status=401),
        Answer(status=302, headers={"Location": "https://8.8.8.8/"}),
        Answer(body=b"<html>"),
        in_json([]),
        in_json({"name": "nobody"}),
        in_json({"sub": "", "email": "ada@example.com", "email_verified": True}),
        in_json({"sub": {"a": 1}}),
        Answer(body=b" " * 2_000_000),
        Answer(close=True, raw=b""),
    ],
)
def test_a_profile_that_is_none_lets_nobody_in(api: Api, issuer: Issuer, answer: Answer) -> None:
    browser = define_plain(api, issuer)
    issuer.server.answer(answer, path="/userinfo")
    refused_profile(browser)


def test_without_an_address_nobody_comes_in_unless_it_is_optional(api: Api, issuer: Issuer) -> None:
    browser = define_plain(api, issuer)
    issuer.server.answer(in_json({"sub": "8"}), path="/userinfo")
    refused_profile(browser, "Error getting user email from external provider")
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"email_optional": True})
    assert signed_in(api, browser)["email"] == ""


# --- where it may be --------------------------------------------------------------------------------------------------


def test_nothing_inside_is_called_when_a_name_leads_there_by_then(
    api: Api, issuer: Issuer, auth_config: ChangeConfig
) -> None:
    plain, browser = define_plain(api, issuer, identifier="custom:plain"), define(api, issuer)
    state = state_of(plain.ask().headers["Location"])
    auth_config(custom_providers={"private_networks_enabled": False})
    before = len(issuer.server.received)
    text = f'{UNSUPPORTED}OIDC discovery from "{issuer.url}{issuer.discovery_path}" failed: '
    assert_error(browser.ask(), 400, "validation_failed", f"{text}the host has no public address")
    answer = plain.come_back(state)
    refused_with(answer, "server_error", "unexpected_failure", "Unable to exchange external code: auth")
    assert len(issuer.server.received) == before


@pytest.mark.django_db(transaction=True)
def test_a_change_counts_at_once(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    signed_in(api, browser)
    issuer.publish_discovery(authorization_endpoint=f"{issuer.url}/new")
    ask(api, "PUT", "/admin/custom-providers/custom:corp", {"name": "Other"})
    assert browser.ask().headers["Location"].startswith(f"{issuer.url}/new?")


def test_a_provider_taken_away_ends_what_has_begun(api: Api, issuer: Issuer) -> None:
    browser = define(api, issuer)
    state = browser.depart()
    ask(api, "DELETE", "/admin/custom-providers/custom:corp")
    refused_with(
        browser.come_back(state),
        "invalid_request",
        "oauth_provider_not_supported",
        f"{UNSUPPORTED}custom provider custom:corp not found",
    )
