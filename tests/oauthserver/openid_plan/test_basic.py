"""The plan of OpenID providers with the response type `code`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from oauthserver.models import OAuthAuthorization
from tests.conftest import Api, ChangeConfig
from tests.factories import backdate, make_session
from tests.oauthserver import client_application
from tests.oauthserver.client_application import CALLBACK, Application, authorize, exchange, query_of, register
from tests.oauthserver.openid_plan.conftest import register_dynamically
from tests.oauthserver.openid_plan.plans import Result, module
from tests.oauthserver.openid_plan.relying_party import NONCE, STATE, RelyingParty, flip_signature, unsigned_jwt

pytestmark = pytest.mark.django_db

SCOPES = {
    "profile": {"name", "picture", "preferred_username", "updated_at"},
    "email": {"email", "email_verified"},
    "phone": {"phone_number"},
}
"""Scope → claims of OpenID Connect Core §5.4 that the user has."""


def renew_browser(party: RelyingParty) -> None:
    """The user signs in once more."""
    party.browser = make_session(party.browser.user)


def assert_bad_code(response: Any) -> None:
    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")


@module("oidcc-server")
@pytest.mark.parametrize("registration", ["static", "dynamic"])
def test_happy_flow(registration: str, party: RelyingParty, api: Api) -> None:
    """oidcc-server: code, tokens, ID token and UserInfo, with each check of their contents."""
    if registration == "dynamic":
        party.application = register_dynamically(api)
    tokens = party.sign_in()
    assert "refresh_token" in tokens.response
    assert party.read_userinfo(tokens) == {"sub": str(party.browser.user.id)}


@module("oidcc-response-type-missing", Result.DIFFERS)
def test_missing_response_type(party: RelyingParty) -> None:
    """oidcc-response-type-missing: `code` is the default, because it is the only response type."""
    party.sign_in(response_type=None)
    assert party.find_error(response_type="id_token") == "invalid_request"


@module("oidcc-idtoken-signature")
def test_signature(party: RelyingParty) -> None:
    """oidcc-idtoken-signature: the ID token is signed with the published key that its `kid` names."""
    assert party.sign_in().id_token["aud"] == party.application.client_id
    assert {key["alg"] for key in party.read_keys().values()} == {"RS256"}


@module("oidcc-idtoken-unsigned", Result.SKIPPED)
def test_unsigned_id_tokens(api: Api) -> None:
    """oidcc-idtoken-unsigned: `alg` none is not offered, and a client that asks for it gets signed ID tokens."""
    application = register_dynamically(api, id_token_signed_response_alg="none")
    party = RelyingParty(api=api, application=application)
    assert "none" not in party.discover()["id_token_signing_alg_values_supported"]
    party.sign_in()


@module("oidcc-userinfo-get")
def test_userinfo_get(party: RelyingParty) -> None:
    """oidcc-userinfo-get: the token in the header of a GET request."""
    assert party.read_userinfo(party.sign_in())


@module("oidcc-userinfo-post-header")
def test_userinfo_post_header(party: RelyingParty) -> None:
    """oidcc-userinfo-post-header: the token in the header of a POST request."""
    assert party.read_userinfo(party.sign_in(), method="POST")


@module("oidcc-userinfo-post-body")
def test_userinfo_post_body(party: RelyingParty) -> None:
    """oidcc-userinfo-post-body: the token in the form of a POST request."""
    tokens = party.sign_in()
    response = client_application.post_form(urlencode({"access_token": tokens.access_token}), path="/oauth/userinfo")
    assert (response.status_code, response.json()) == (200, {"sub": tokens.id_token["sub"]})


@module("oidcc-ensure-request-without-nonce-succeeds-for-code-flow")
def test_without_nonce(party: RelyingParty) -> None:
    """oidcc-ensure-request-without-nonce-succeeds-for-code-flow: the ID token has no nonce either."""
    assert "nonce" not in party.sign_in(nonce=None).id_token


def check_scopes(party: RelyingParty, scope: str) -> None:
    tokens = party.sign_in(scope=scope)
    granted = tokens.response["scope"].split(" ")
    assert granted == scope.split(" ")
    claims = party.read_userinfo(tokens)
    expected = set[str]().union(*(SCOPES.get(name, set()) for name in granted))
    assert expected <= claims.keys()
    assert not {claim for name in SCOPES.keys() - set(granted) for claim in SCOPES[name]} & claims.keys()
    assert isinstance(claims.get("updated_at", 0), int)
    assert isinstance(claims.get("email_verified", True), bool)


@module("oidcc-scope-profile")
def test_scope_profile(party: RelyingParty) -> None:
    """oidcc-scope-profile: name, picture, preferred_username, updated_at."""
    check_scopes(party, "openid profile")


@module("oidcc-scope-email")
def test_scope_email(party: RelyingParty) -> None:
    """oidcc-scope-email: email, email_verified."""
    check_scopes(party, "openid email")


@module("oidcc-scope-address", Result.SKIPPED)
def test_scope_address(party: RelyingParty) -> None:
    """oidcc-scope-address: the scope is not offered, and a request for it gets an error."""
    assert "address" not in party.discover()["scopes_supported"]
    assert party.find_error(scope="openid address") == "invalid_request"


@module("oidcc-scope-phone")
def test_scope_phone(party: RelyingParty) -> None:
    """oidcc-scope-phone: phone_number, phone_number_verified."""
    check_scopes(party, "openid phone")


@module("oidcc-scope-all", Result.SKIPPED)
def test_all_scopes(party: RelyingParty) -> None:
    """oidcc-scope-all: the module needs `address`; the other scopes together."""
    check_scopes(party, "openid profile email phone")


@module("oidcc-ensure-other-scope-order-succeeds")
def test_other_order_of_scopes(party: RelyingParty) -> None:
    """oidcc-ensure-other-scope-order-succeeds: `openid` need not be the first scope."""
    check_scopes(party, "email openid")


@module("oidcc-alternate-happy-flow")
def test_alternate_happy_flow(api: Api) -> None:
    """oidcc-alternate-happy-flow: a second client, whose redirect URI has a query."""
    uri = f"{CALLBACK}?dummy1=lorem&dummy2=ipsum"
    application = register(api, redirect_uris=[uri], token_endpoint_auth_method="client_secret_basic")
    party = RelyingParty(api=api, application=application)
    party.sign_in(redirect_uri=uri)


@module("oidcc-display-page")
def test_display_page(party: RelyingParty) -> None:
    """oidcc-display-page: `display=page` changes nothing."""
    party.sign_in(display="page")


@module("oidcc-display-popup")
def test_display_popup(party: RelyingParty) -> None:
    """oidcc-display-popup: `display=popup` changes nothing."""
    party.sign_in(display="popup")


def sign_in_again(party: RelyingParty, **parameters: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ID tokens of two sign-ins, the second with parameters that the session does not fulfil."""
    party.browser = make_session(party.browser.user, at=timezone.now() - timedelta(seconds=5))
    first = party.sign_in().id_token
    authorization_id = client_application.start(party.api, party.application, nonce=NONCE, state=STATE, **parameters)
    shown = client_application.show(party.api, authorization_id, party.browser).json()
    assert shown["required_action"] == "reauthenticate"
    assert client_application.decide(party.api, authorization_id, party.browser).status_code == 404
    renew_browser(party)
    assert "required_action" not in client_application.show(party.api, authorization_id, party.browser).json()
    location = client_application.decide(party.api, authorization_id, party.browser).json()["redirect_url"]
    return first, party.exchange(query_of(location)["code"]).id_token


@module("oidcc-prompt-login")
def test_prompt_login(party: RelyingParty) -> None:
    """oidcc-prompt-login: the user signs in again, and `auth_time` is that of the second sign-in."""
    first, second = sign_in_again(party, prompt="login")
    assert second["sub"] == first["sub"]
    assert second["auth_time"] > first["auth_time"]


@module("oidcc-prompt-none-not-logged-in")
def test_prompt_none_not_signed_in(party: RelyingParty, auth_config: ChangeConfig) -> None:
    """oidcc-prompt-none-not-logged-in: a browser that is not signed in to the hosted pages gets `login_required`."""
    auth_config(pages={"enabled": True}, oauth_server={"authorization_path": ""})
    assert party.find_error(prompt="none") == "login_required"


@module("oidcc-prompt-none-logged-in")
def test_prompt_none_signed_in(party: RelyingParty) -> None:
    """oidcc-prompt-none-logged-in: a code at once, for the same sign-in."""
    first = party.sign_in().id_token
    second = party.sign_in(prompt="none").id_token
    assert (second["sub"], second["auth_time"]) == (first["sub"], first["auth_time"])


@module("oidcc-max-age-1")
def test_max_age_1(party: RelyingParty) -> None:
    """oidcc-max-age-1: the sign-in is older, so the user signs in again."""
    first, second = sign_in_again(party, max_age="1")
    assert second["sub"] == first["sub"]
    assert second["auth_time"] > first["auth_time"]


@module("oidcc-max-age-10000")
def test_max_age_10000(party: RelyingParty) -> None:
    """oidcc-max-age-10000: the sign-in is recent enough, and `auth_time` is the same."""
    first, second = party.sign_in().id_token, party.sign_in(max_age="10000").id_token
    assert (second["sub"], second["auth_time"]) == (first["sub"], first["auth_time"])


@module("oidcc-ensure-request-with-unknown-parameter-succeeds")
def test_unknown_parameter(party: RelyingParty) -> None:
    """oidcc-ensure-request-with-unknown-parameter-succeeds: it is ignored."""
    party.sign_in(extra="foobar")


@module("oidcc-id-token-hint")
def test_id_token_hint(party: RelyingParty) -> None:
    """oidcc-id-token-hint: `prompt=none` with the ID token of the signed-in user gives a code for that user."""
    first = party.sign_in()
    second = party.sign_in(prompt="none", id_token_hint=first.response["id_token"])
    assert second.id_token["sub"] == first.id_token["sub"]


def test_id_token_hint_of_another_user(party: RelyingParty) -> None:
    """Another user gets no tokens (OpenID Connect Core §3.1.2.2), and only an ID token of this service is a hint."""
    user, other = party.browser, make_session()
    first = party.sign_in()
    hint = first.response["id_token"]
    party.browser = other
    party.sign_in()  # its user has consented
    assert party.find_error(prompt="none", id_token_hint=hint) == "login_required"
    parameters = {"scope": "openid", "id_token_hint": hint, "nonce": NONCE}
    authorization_id = client_application.start(party.api, party.application, **parameters)
    shown = client_application.show(party.api, authorization_id, other).json()
    assert shown["required_action"] == "reauthenticate"
    assert client_application.decide(party.api, authorization_id, other).status_code == 404
    location = client_application.show(party.api, authorization_id, user).json()["redirect_url"]
    assert party.exchange(query_of(location)["code"]).id_token["sub"] == first.id_token["sub"]
    for forged in (flip_signature(hint), first.access_token, "x"):
        assert party.find_error(id_token_hint=forged) == "invalid_request"


@module("oidcc-login-hint")
def test_login_hint(party: RelyingParty) -> None:
    """oidcc-login-hint: the page gets the hint."""
    party.sign_in(login_hint="bob@example.com")
    authorization_id = client_application.start(
        party.api, party.application, login_hint="bob@example.com", scope="openid phone"
    )
    assert client_application.show(party.api, authorization_id, party.browser).json()["login_hint"] == "bob@example.com"


@module("oidcc-ui-locales")
def test_ui_locales(party: RelyingParty) -> None:
    """oidcc-ui-locales: a preference, with which the request succeeds."""
    party.sign_in(ui_locales="se")


@module("oidcc-claims-locales")
def test_claims_locales(party: RelyingParty) -> None:
    """oidcc-claims-locales: a preference, with which the request succeeds."""
    party.sign_in(claims_locales="se")


@module("oidcc-claims-essential", Result.SKIPPED)
def test_essential_claims(party: RelyingParty) -> None:
    """oidcc-claims-essential: the parameter `claims` is not offered, and ignored."""
    assert party.discover()["claims_parameter_supported"] is False
    tokens = party.sign_in(claims='{"userinfo": {"name": {"essential": true}}}')
    assert "name" not in party.read_userinfo(tokens)


@module("oidcc-ensure-request-with-acr-values-succeeds")
def test_acr_values(party: RelyingParty) -> None:
    """oidcc-ensure-request-with-acr-values-succeeds: an `acr` that the metadata names is in the ID token."""
    offered = party.discover()["acr_values_supported"]
    assert party.sign_in(acr_values=f"{offered[0]} urn:example:loa").id_token["acr"] == offered[0]
    party.sign_in(acr_values="urn:example:loa")


@module("oidcc-codereuse")
def test_reused_code(party: RelyingParty) -> None:
    """oidcc-codereuse: the second exchange is refused."""
    code = party.authorize()["code"]
    party.exchange(code)
    assert_bad_code(exchange(party.application, code))


@module("oidcc-codereuse-30seconds")
def test_code_reused_later(party: RelyingParty) -> None:
    """oidcc-codereuse-30seconds: 30 s later, the second exchange is refused and ends the first access token."""
    code = party.authorize()["code"]
    tokens = party.exchange(code)
    backdate(OAuthAuthorization.objects.get(), by=timedelta(seconds=30))
    assert_bad_code(exchange(party.application, code))
    assert party.api.get("/oauth/userinfo", bearer=tokens.access_token).status_code == 403
    assert client_application.refresh(party.application, tokens.refresh_token).json()["error"] == "invalid_grant"


@module("oidcc-ensure-registered-redirect-uri")
def test_unregistered_redirect_uri(party: RelyingParty) -> None:
    """oidcc-ensure-registered-redirect-uri: an error, and no redirect."""
    response = authorize(party.api, party.application, redirect_uri="https://client.example.com/other")
    assert response.status_code == 400
    assert "Location" not in response.headers


@module("oidcc-ensure-post-request-succeeds")
def test_authorization_by_post(party: RelyingParty) -> None:
    """oidcc-ensure-post-request-succeeds: the parameters in a form."""
    party.sign_in(method="POST")


@module("oidcc-server-client-secret-post")
@pytest.mark.parametrize("method", ["client_secret_post", "none"])
def test_other_client_authentication(method: str, api: Api) -> None:
    """oidcc-server-client-secret-post: the secret in the form. A public client has none."""
    party = RelyingParty(api=api, application=register(api, token_endpoint_auth_method=method))
    assert party.read_userinfo(party.sign_in())


@module("oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported")
def test_request_uri(party: RelyingParty) -> None:
    """oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported: rejected."""
    assert party.discover()["request_uri_parameter_supported"] is False
    assert party.find_error(request_uri="https://client.example.com/request.jwt") == "request_uri_not_supported"


@module("oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported")
def test_request_object(party: RelyingParty) -> None:
    """oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported: rejected."""
    assert party.discover()["request_parameter_supported"] is False
    request_object = unsigned_jwt({"client_id": party.application.client_id, "state": STATE, "nonce": NONCE})
    assert party.find_error(request=request_object) == "request_not_supported"


@module("oidcc-ensure-request-object-with-redirect-uri", Result.SKIPPED)
def test_request_object_with_redirect_uri(party: RelyingParty) -> None:
    """oidcc-ensure-request-object-with-redirect-uri: the redirect URI in the object has no effect."""
    request_object = unsigned_jwt({"client_id": party.application.client_id, "redirect_uri": "https://evil.example"})
    assert party.find_error(request=request_object) == "request_not_supported"


@module("oidcc-refresh-token")
@pytest.mark.parametrize("registration", ["static", "dynamic"])
def test_refresh_token(registration: str, party: RelyingParty, api: Api) -> None:
    """oidcc-refresh-token: new tokens for the same user; the token of another client is refused."""
    if registration == "dynamic":
        party.application = register_dynamically(api)
    tokens = party.sign_in(scope="openid offline_access", prompt="consent")
    other = RelyingParty(api=api, application=register(api), browser=party.browser)
    refused = client_application.refresh(other.application, tokens.refresh_token)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client")
    refreshed = party.refresh(tokens)
    assert refreshed["refresh_token"] != tokens.refresh_token
    assert refreshed["token_type"].lower() == "bearer"
    userinfo = api.get("/oauth/userinfo", bearer=refreshed["access_token"])
    assert userinfo.json()["sub"] == tokens.id_token["sub"]


@module("oidcc-ensure-request-with-valid-pkce-succeeds")
def test_pkce(party: RelyingParty) -> None:
    """oidcc-ensure-request-with-valid-pkce-succeeds: as in every other test, because this service requires it."""
    assert party.discover()["code_challenge_methods_supported"][0] == "S256"
    code = party.authorize()["code"]
    assert_bad_code(exchange(party.application, code, code_verifier="x" * 43))
    party.exchange(code)
    # The plan sends most requests without a challenge.
    assert party.find_error(code_challenge=None, code_challenge_method=None) == "invalid_request"


def test_wrong_credentials(party: RelyingParty) -> None:
    """A wrong secret gets `invalid_client`, with status 400 instead of 401 (RFC 6749 §5.2)."""
    code = party.authorize()["code"]
    wrong = Application(party.application.client_id, "x" * 43, party.application.method)
    response = exchange(wrong, code)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_client")
    assert response.headers["WWW-Authenticate"].startswith("Basic")
