"""The grant `client_credentials`: access tokens of clients that act for themselves."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import jwt
import pytest

from oauthserver.models import OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.oauthserver.client_application import (
    CALLBACK,
    ISSUER,
    Application,
    exchange,
    introspect,
    post_form,
    refresh,
    register,
    request_token,
    revoke,
)  # fmt: skip
from tests.observations import assert_error, audit_payloads, table_contents
from tests.security.test_impersonated_endpoints import ANY_ID, USES, Use
from tests.tokens.token_requests import read_claims
from tokens.models import Session

pytestmark = pytest.mark.django_db

GRANT = "client_credentials"
API = "https://api.example.com/"
NO_USER = (403, "bad_jwt", "invalid claim: the access token belongs to a client and not to a user")


def machine(api: Api, **metadata: Any) -> Application:
    defaults = {"grant_types": [GRANT], "redirect_uris": [], "token_endpoint_auth_method": "client_secret_basic"}
    return register(api, **{**defaults, **metadata})


def request(client: Application, **form: Any) -> ApiResponse:
    return request_token(client, grant_type=GRANT, **form)


def error_of(response: ApiResponse) -> tuple[int, str, str]:
    body = response.json()
    return response.status_code, body["error"], body["error_description"]


def test_a_token_of_a_client(api: Api) -> None:
    client = machine(api, client_name="Robot", scope="reports:read  reports:write")

    response = request(client, scope="reports:read", resource=API)

    content = response.json()
    assert (response.status_code, set(content)) == (200, {"access_token", "token_type", "expires_in", "scope"})
    assert (content["token_type"], content["expires_in"], content["scope"]) == ("bearer", 3600, "reports:read")
    assert jwt.get_unverified_header(content["access_token"])["typ"] == "at+jwt"
    claims = read_claims(content["access_token"])
    assert claims.pop("exp") - claims.pop("iat") == 3600
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "iss": ISSUER,
        "sub": client.client_id,
        "aud": API,
        "client_id": client.client_id,
        "scope": "reports:read",
    }
    assert not Session.objects.exists()
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("oauth_client_token_issued", "oauth_client")
    assert entry["traits"] == {"client_id": client.client_id, "client_name": "Robot", "scopes": "reports:read"}


def test_all_registered_scopes_by_default(api: Api) -> None:
    content = request(machine(api, scope="a b")).json()
    assert content["scope"] == "a b"
    assert read_claims(content["access_token"])["aud"] == ISSUER
    assert "scope" not in request(machine(api)).json()


def test_several_resources(api: Api) -> None:
    client = machine(api)
    form = urlencode([("grant_type", GRANT), ("resource", API), ("resource", "urn:b"), ("resource", API)])
    token = post_form(form, headers=client.basic).json()["access_token"]
    assert read_claims(token)["aud"] == [API, "urn:b"]


@pytest.mark.parametrize(
    ("form", "error", "description"),
    [
        ({"scope": "reports:write"}, "invalid_scope", "the client is not registered for a requested scope"),
        ({"scope": "reports:read openid"}, "invalid_scope", "the client is not registered for a requested scope"),
        ({"resource": "api"}, "invalid_target", "resource must be an absolute URI"),
        ({"resource": API + "#a"}, "invalid_target", "resource must not include a fragment component"),
        ({"resource": "https://[/"}, "invalid_target", "resource must be a valid URI"),
        ({"resource": API + "x" * 2048}, "invalid_target", "resource too long"),
    ],
)
def test_refused_requests(form: dict[str, str], error: str, description: str, api: Api) -> None:
    client = machine(api, scope="reports:read")
    before = table_contents()
    assert error_of(request(client, **form)) == (400, error, description)
    assert table_contents() == before


def test_only_administrators_permit_the_grant(api: Api) -> None:
    usual = register(api, token_endpoint_auth_method="client_secret_basic")
    refused = (400, "unsupported_grant_type", "Client is not allowed to use grant type: client_credentials")
    assert error_of(request(usual)) == refused
    body = {"redirect_uris": [CALLBACK], "grant_types": ["authorization_code", GRANT]}
    message = "grant_types must only contain 'authorization_code' and/or 'refresh_token'"
    assert api.post("/oauth/clients/register", body).json()["msg"] == message
    for metadata in ({"client_type": "public"}, {"token_endpoint_auth_method": "none"}):
        response = admin_requests.ask(api, "POST", "/admin/oauth/clients", {**body, **metadata})
        public = "grant type 'client_credentials' requires client_type 'confidential'"
        assert_error(response, 400, "validation_failed", public)
    public_client = register(api)
    path = f"/admin/oauth/clients/{public_client.client_id}"
    assert_error(admin_requests.ask(api, "PUT", path, {"grant_types": [GRANT]}), 400, "validation_failed", public)
    assert OAuthClient.objects.count() == 2

    path = f"/admin/oauth/clients/{usual.client_id}"
    changes = {"grant_types": ["authorization_code", GRANT], "scope": "a"}
    assert admin_requests.ask(api, "PUT", path, changes).json()["scope"] == "a"
    assert request(usual).status_code == 200
    assert "scope" not in admin_requests.ask(api, "PUT", path, {"grant_types": ["authorization_code"]}).json()
    assert error_of(request(usual)) == refused


def test_redirect_uris_are_required_for_redirects_only(api: Api) -> None:
    client = machine(api)
    path = f"/admin/oauth/clients/{client.client_id}"
    assert admin_requests.ask(api, "GET", path).json()["redirect_uris"] == []
    assert_error(
        admin_requests.ask(api, "PUT", path, {"grant_types": ["authorization_code", GRANT]}),
        400,
        "validation_failed",
        "redirect_uris is required",
    )
    assert api.get(f"/oauth/authorize?client_id={client.client_id}&redirect_uri={CALLBACK}").status_code == 400
    both = {"grant_types": ["authorization_code", GRANT], "redirect_uris": [CALLBACK]}
    assert admin_requests.ask(api, "PUT", path, both).status_code == 200
    assert admin_requests.ask(api, "PUT", path, {"redirect_uris": []}).json()["msg"] == "redirect_uris cannot be empty"
    assert admin_requests.ask(api, "PUT", path, {"redirect_uris": [], "grant_types": [GRANT]}).status_code == 200


@pytest.mark.parametrize("scope", ["openid", "a openid", 'a"b', "é", "a\\b", "x" * 2049])
def test_refused_scopes_of_a_client(scope: str, api: Api) -> None:
    body = {"grant_types": [GRANT], "scope": scope}
    assert admin_requests.ask(api, "POST", "/admin/oauth/clients", body).status_code == 400
    usual = {"redirect_uris": [CALLBACK], "scope": scope}
    client = admin_requests.ask(api, "POST", "/admin/oauth/clients", usual).json()
    assert "scope" not in client
    path = f"/admin/oauth/clients/{client['client_id']}"
    assert admin_requests.ask(api, "PUT", path, {"grant_types": [GRANT]}).status_code == 400


def test_no_other_grant_works(api: Api) -> None:
    client = machine(api)
    assert exchange(client, "x").json()["error"] == "unsupported_grant_type"
    assert refresh(client, "x").json()["error"] == "unsupported_grant_type"


@pytest.mark.usefixtures("no_request_limits")
def test_no_endpoint_accepts_the_token(api: Api, auth_config: ChangeConfig) -> None:
    """Every endpoint with a bearer token, of users and of administrators, with and without restricted tokens."""
    client = machine(api, scope="service_role authenticated svc_admin")
    for restricted in (True, False):
        auth_config(oauth_server={"restrict_client_tokens": restricted}, passkeys={"enabled": True})
        for resource in (None, API):
            token = request(client, resource=resource).json()["access_token"]
            for endpoint, use in USES.items():
                method, _, template = endpoint.partition(" ")
                if use is not Use.PUBLIC:
                    path = "/".join(ANY_ID if part.startswith("{") else part for part in template.split("/"))
                    assert_error(api.request(method, path, {} if method != "GET" else None, bearer=token), *NO_USER)
    linked = {"provider": "google", "id_token": "x", "link_identity": True}
    assert_error(api.post("/token?grant_type=id_token", linked, bearer=token), *NO_USER)


def test_introspection_and_revocation(api: Api) -> None:
    client, other = machine(api, scope="a"), machine(api)
    resource_server = machine(api, resource=API)
    token = request(client, resource=API).json()["access_token"]
    claims = read_claims(token)

    expected = {"active": True, "token_type": "bearer", **claims}
    assert introspect(client, token).json() == expected
    assert introspect(resource_server, token).json() == expected
    assert introspect(other, token).json() == {"active": False}
    assert error_of(revoke(client, token))[:2] == (400, "unsupported_token_type")
    assert revoke(other, token).status_code == 200

    path = f"/admin/oauth/clients/{client.client_id}"
    admin_requests.ask(api, "PUT", path, {"grant_types": ["authorization_code"], "redirect_uris": [CALLBACK]})
    assert introspect(resource_server, token).json() == {"active": False}
    admin_requests.ask(api, "PUT", path, {"grant_types": [GRANT]})
    assert introspect(resource_server, token).json()["active"] is True
    admin_requests.ask(api, "DELETE", path)
    assert introspect(resource_server, token).json() == {"active": False}


def test_discovery(api: Api) -> None:
    assert GRANT in api.get("/.well-known/openid-configuration").json()["grant_types_supported"]
