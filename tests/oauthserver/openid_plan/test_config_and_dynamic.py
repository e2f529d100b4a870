"""The plans of discovery and of dynamic registration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest

from oauthserver.models import OAuthClient
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import VERIFIER, make_user
from tests.fakes.http_peer import HttpPeer, in_json
from tests.oauthserver import client_keys
from tests.oauthserver.client_application import CALLBACK, ISSUER, Application, authorize, exchange, register
from tests.oauthserver.openid_plan.conftest import register_dynamically, signing_key
from tests.oauthserver.openid_plan.plans import Result, module
from tests.oauthserver.openid_plan.relying_party import RelyingParty, unsigned_jwt
from tests.page_browser import PageBrowser
from tokens.jwt import signing_keys

pytestmark = pytest.mark.django_db

ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "registration_endpoint")
LISTS = {
    "response_types_supported": "code",
    "response_modes_supported": "query",
    "grant_types_supported": "authorization_code",
    "subject_types_supported": "public",
    "id_token_signing_alg_values_supported": "RS256",
    "token_endpoint_auth_methods_supported": "client_secret_basic",
    "scopes_supported": "openid",
    "claims_supported": "sub",
    "code_challenge_methods_supported": "S256",
    "prompt_values_supported": "none",
}
"""Member of the metadata → a value that must be in its list."""


@module("oidcc-discovery-endpoint-verification")
def test_discovery(dynamic_party: RelyingParty, api: Api) -> None:
    """oidcc-discovery-endpoint-verification: the members of the metadata, and the published keys."""
    metadata = dynamic_party.discover()
    assert metadata["issuer"] == ISSUER
    assert not {"?", "#"} & set(metadata["issuer"])
    for name in ENDPOINTS:
        assert metadata[name].startswith("https://"), name
    for name, required in LISTS.items():
        assert required in metadata[name], name
        assert len(set(metadata[name])) == len(metadata[name]), name
    for name in ("claims_parameter_supported", "request_parameter_supported", "request_uri_parameter_supported"):
        assert isinstance(metadata[name], bool)
    assert metadata == api.get("/.well-known/oauth-authorization-server").json()
    for key in dynamic_party.read_keys().values():
        assert key["use"] == "sig"
        assert key["alg"] in metadata["id_token_signing_alg_values_supported"]
        assert (key["kty"], key["e"]) == ("RSA", "AQAB")


@module("oidcc-idtoken-rs256")
def test_rs256(api: Api) -> None:
    """oidcc-idtoken-rs256: a client that asks for RS256 gets it."""
    application = register_dynamically(api, id_token_signed_response_alg="RS256")
    tokens = RelyingParty(api=api, application=application).sign_in()
    assert jwt.get_unverified_header(tokens.response["id_token"])["alg"] == "RS256"


@module("oidcc-userinfo-rs256", Result.SKIPPED)
def test_signed_userinfo(api: Api) -> None:
    """oidcc-userinfo-rs256: signed responses are not offered, and a client that asks for them gets JSON."""
    party = RelyingParty(api=api, application=register_dynamically(api, userinfo_signed_response_alg="RS256"))
    assert "userinfo_signing_alg_values_supported" not in party.discover()
    assert party.read_userinfo(party.sign_in())


@module("oidcc-redirect-uri-query-OK")
def test_redirect_uri_with_query(api: Api) -> None:
    """oidcc-redirect-uri-query-OK: the query of the redirect URI is part of the response."""
    uri = f"{CALLBACK}?foo=bar"
    party = RelyingParty(api=api, application=register_dynamically(api, redirect_uris=[uri]))
    party.sign_in(redirect_uri=uri)


def assert_refused_without_redirect(response: ApiResponse) -> None:
    assert (response.status_code, response.headers.get("Location")) == (400, None)


@module("oidcc-redirect-uri-query-added")
def test_added_query(dynamic_party: RelyingParty) -> None:
    """oidcc-redirect-uri-query-added: a query that is not registered."""
    uri = f"{CALLBACK}?foo=bar"
    assert_refused_without_redirect(authorize(dynamic_party.api, dynamic_party.application, redirect_uri=uri))


@module("oidcc-redirect-uri-query-mismatch")
def test_other_query(api: Api) -> None:
    """oidcc-redirect-uri-query-mismatch: another query than the registered one, in the request or the exchange."""
    uri = f"{CALLBACK}?foo=bar"
    party = RelyingParty(api=api, application=register_dynamically(api, redirect_uris=[uri]))
    for other in (CALLBACK, f"{CALLBACK}?foo=baz", f"{uri}&baz=1"):
        assert_refused_without_redirect(authorize(api, party.application, redirect_uri=other))
    code = party.authorize(redirect_uri=uri)["code"]
    assert exchange(party.application, code, redirect_uri=CALLBACK).json()["error"] == "invalid_grant"


def register_badly(api: Api, **metadata: Any) -> str:
    """The error of a registration."""
    response = api.post("/oauth/clients/register", {"redirect_uris": [CALLBACK], **metadata})
    assert response.status_code == 400, response.content
    error: str = response.json()["error"]
    return error


@module("oidcc-redirect-uri-regfrag")
def test_registered_fragment(api: Api) -> None:
    """oidcc-redirect-uri-regfrag: a redirect URI with a fragment cannot be registered."""
    assert register_badly(api, redirect_uris=[f"{CALLBACK}#foobar"]) == "invalid_redirect_uri"
    assert register_badly(api, redirect_uris=[]) == "invalid_redirect_uri"


@module("oidcc-ensure-redirect-uri-in-authorization-request")
def test_redirect_uri_is_required(dynamic_party: RelyingParty) -> None:
    """oidcc-ensure-redirect-uri-in-authorization-request: also of a client with a single one."""
    assert_refused_without_redirect(authorize(dynamic_party.api, dynamic_party.application, redirect_uri=None))


def sign_in_by_assertion(party: RelyingParty, **claims: Any) -> dict[str, Any]:
    """The tokens of a client that exchanges the code with `private_key_jwt`."""
    code = party.authorize()["code"]
    assertion = client_keys.assertion(party.application.client_id, **claims)
    form: dict[str, Any] = {"code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    response = client_keys.post(assertion, grant_type="authorization_code", **form)
    assert response.status_code == 200, response.content
    tokens: dict[str, Any] = response.json()
    party.verify_id_token(tokens["id_token"])
    return tokens


@module("oidcc-ensure-client-assertion-with-iss-aud-succeeds")
def test_issuer_as_audience(api: Api) -> None:
    """oidcc-ensure-client-assertion-with-iss-aud-succeeds: `aud` of the client's assertion is the issuer."""
    metadata = {"token_endpoint_auth_method": "private_key_jwt", "jwks": client_keys.JWKS}
    party = RelyingParty(api=api, application=register_dynamically(api, **metadata))
    assert "private_key_jwt" in party.discover()["token_endpoint_auth_methods_supported"]
    sign_in_by_assertion(party, aud=party.discover()["issuer"])


def party_with_keys_at(peer: HttpPeer, api: Api) -> RelyingParty:
    """A relying party that publishes its keys."""
    metadata = {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "https://client.example.com/keys"}
    application = register_dynamically(api, **metadata)
    # The server of the test speaks plain HTTP.
    OAuthClient.objects.filter(id=application.client_id).update(jwks_uri=f"{peer.url}/keys")
    return RelyingParty(api=api, application=application)


@module("oidcc-registration-jwks-uri")
def test_jwks_uri(api: Api, keys_peer: HttpPeer) -> None:
    """oidcc-registration-jwks-uri: the client's key is fetched from its `jwks_uri`."""
    keys_peer.respond(in_json(client_keys.JWKS), path="/keys")
    sign_in_by_assertion(party_with_keys_at(keys_peer, api))


@module("oidcc-refresh-token-rp-key-rotation")
def test_rotated_key_of_the_client(api: Api, keys_peer: HttpPeer) -> None:
    """oidcc-refresh-token-rp-key-rotation: the client replaces its key between the exchange and the refresh."""
    old, new = (client_keys.public(client_keys.PRIVATE[alg]) for alg in ("ES256", "RS256"))
    keys_peer.respond(in_json({"keys": [old]}), in_json({"keys": [new]}), path="/keys")
    party = party_with_keys_at(keys_peer, api)
    tokens = sign_in_by_assertion(party, alg="ES256")
    assertion = client_keys.assertion(party.application.client_id, alg="RS256")
    refreshed = client_keys.post(assertion, grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert refreshed.status_code == 200
    assert refreshed.json()["refresh_token"] != tokens["refresh_token"]


@pytest.fixture
def consent_page(api: Api, auth_config: ChangeConfig) -> Callable[[Application], ApiResponse]:
    """The page on which a user approves the request of an application."""
    auth_config(pages={"enabled": True}, oauth_server={"authorization_path": ""})
    browser = PageBrowser()
    browser.sign_in(str(make_user().email))

    def show(application: Application) -> ApiResponse:
        location = authorize(api, application).headers["Location"]
        page = browser.get(urlsplit(location)._replace(scheme="", netloc="").geturl())
        assert page.status_code == 200
        return page

    return show


@module("oidcc-registration-logo-uri", Result.DIFFERS)
def test_logo(api: Api, consent_page: Callable[[Application], ApiResponse]) -> None:
    """oidcc-registration-logo-uri: the consent page shows it only if an administrator has registered the client."""
    logo = "https://client.example.com/logo.png"
    clients = (register_dynamically(api, logo_uri=logo), False), (register(api, logo_uri=logo), True)
    for application, is_shown in clients:
        page = consent_page(application)
        assert (logo in page.content.decode()) == is_shown
        assert ("https://client.example.com" in page.headers["Content-Security-Policy"]) == is_shown


@module("oidcc-registration-policy-uri", Result.DIFFERS)
def test_policy_uri(api: Api, consent_page: Callable[[Application], ApiResponse]) -> None:
    """oidcc-registration-policy-uri: the address is not kept, and the pages have no link to it."""
    uri = "https://client.example.com/policy"
    assert uri not in consent_page(register_dynamically(api, policy_uri=uri)).content.decode()


@module("oidcc-registration-tos-uri", Result.DIFFERS)
def test_terms_uri(api: Api, consent_page: Callable[[Application], ApiResponse]) -> None:
    """oidcc-registration-tos-uri: the address is not kept, and the pages have no link to it."""
    uri = "https://client.example.com/terms"
    assert uri not in consent_page(register_dynamically(api, tos_uri=uri)).content.decode()


@module("oidcc-registration-sector-uri", Result.SKIPPED)
def test_sector_identifier(api: Api) -> None:
    """oidcc-registration-sector-uri: it concerns pairwise subjects, which are not offered."""
    uri = "https://client.example.com/sector.json"
    party = RelyingParty(api=api, application=register_dynamically(api, sector_identifier_uri=uri))
    assert party.discover()["subject_types_supported"] == ["public"]
    assert party.sign_in().id_token["sub"] == str(party.browser.user.id)


@module("oidcc-registration-sector-bad", Result.DIFFERS)
def test_bad_sector_identifier(api: Api) -> None:
    """oidcc-registration-sector-bad: the address is ignored, so it is not compared with the redirect URIs."""
    application = register_dynamically(api, sector_identifier_uri="https://other.example/sector.json")
    party = RelyingParty(api=api, application=application)
    assert party.sign_in().id_token["sub"] == str(party.browser.user.id)


@module("oidcc-request-uri-unsigned", Result.SKIPPED)
@pytest.mark.parametrize("uri", ["https://client.example.com/request.jwt", "https://client.example.com/r.jwt#hash"])
def test_unsigned_request_uri(uri: str, dynamic_party: RelyingParty) -> None:
    """oidcc-request-uri-unsigned: request objects are not offered, and refused."""
    assert dynamic_party.find_error(request_uri=uri) == "request_uri_not_supported"


@module("oidcc-request-uri-signed-rs256", Result.SKIPPED)
def test_signed_request_uri(api: Api) -> None:
    """oidcc-request-uri-signed-rs256: request objects are not offered, and refused."""
    application = register_dynamically(api, request_object_signing_alg="RS256")
    party = RelyingParty(api=api, application=application)
    assert "request_object_signing_alg_values_supported" not in party.discover()
    assert party.find_error(request=unsigned_jwt({})) == "request_not_supported"


@module("oidcc-server-rotate-keys")
def test_rotated_keys(dynamic_party: RelyingParty, auth_config: ChangeConfig) -> None:
    """oidcc-server-rotate-keys: ID tokens name the new key, and the old one stays published for older tokens."""
    before = dynamic_party.sign_in()
    old_keys = dynamic_party.read_keys()
    old = {**signing_key(), "key_ops": ["verify"]}
    new = signing_keys.generate(algorithm="ES256")
    auth_config(jwt={"keys": (new, old), "valid_methods": ("ES256", "RS256", "HS256")})
    keys = dynamic_party.read_keys()
    assert keys.keys() == {*old_keys, new["kid"]}
    assert dynamic_party.sign_in().id_token["iss"] == ISSUER
    assert dynamic_party.read_userinfo(before)
