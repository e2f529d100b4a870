"""/admin/custom-providers: create, list, read, update and delete custom providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from authsvc.conf import Secret
from authsvc.security import encryption
from oauthproviders.models import CustomProvider
from tests.accounts.administration import admin_requests
from tests.accounts.administration.admin_requests import NOT_ADMIN, ask
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import make_session
from tests.fakes.http_peer import MockedServer, in_json
from tests.fakes.http_peer import Response as PeerResponse
from tests.fakes.issuer import Issuer, SigningKey
from tests.observations import assert_error, audit_payloads

pytestmark = pytest.mark.django_db

PATH = "/admin/custom-providers"
RSA = SigningKey()
INVALID = (400, "validation_failed")
PUBLIC = "https://8.8.8.8"
OAUTH2 = {
    "provider_type": "oauth2",
    "identifier": "custom:acme",
    "name": "Acme",
    "client_id": "i",
    "client_secret": "s",
    "scopes": ["profile"],
    "authorization_url": f"{PUBLIC}/a",
    "token_url": f"{PUBLIC}/t",
    "userinfo_url": f"{PUBLIC}/u",
}
RESPONSE = {
    "provider_type": "oauth2",
    "identifier": "custom:acme",
    "name": "Acme",
    "client_id": "i",
    "acceptable_client_ids": [],
    "scopes": ["profile"],
    "pkce_enabled": True,
    "attribute_mapping": {},
    "custom_claims_allowlist": [],
    "authorization_params": {},
    "enabled": True,
    "email_optional": False,
    "skip_nonce_check": False,
    "authorization_url": f"{PUBLIC}/a",
    "token_url": f"{PUBLIC}/t",
    "userinfo_url": f"{PUBLIC}/u",
}


@pytest.fixture
def issuer(server: MockedServer, auth_config: ChangeConfig) -> Issuer:
    auth_config(custom_providers={"private_networks_enabled": True})
    return Issuer(server, key=RSA, scopes_supported=["openid", "email"])


def oidc_definition(at: Issuer, **changes: Any) -> dict[str, Any]:
    body = {
        "provider_type": "oidc",
        "identifier": "custom:corp",
        "name": "Corp",
        "client_id": "cid",
        "client_secret": "sec",
        "issuer": at.name,
        **changes,
    }
    return {key: value for key, value in body.items() if value is not None}


def create(api: Api, body: dict[str, Any]) -> ApiResponse:
    return ask(api, "POST", PATH, body)


def create_provider(api: Api, body: dict[str, Any]) -> dict[str, Any]:
    response = create(api, body)
    assert response.status_code == 201, response.content
    provider: dict[str, Any] = response.json()
    return provider


def without_times(provider: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in provider.items() if key not in ("id", "created_at", "updated_at")}


# Permissions


ENDPOINTS = [("GET", PATH), ("POST", PATH), *((method, f"{PATH}/custom:acme") for method in ("GET", "PUT", "DELETE"))]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_only_administrators_are_permitted(api: Api, method: str, path: str) -> None:
    unauthenticated = (401, "no_authorization", "This endpoint requires a valid Bearer token")
    assert_error(api.request(method, path, "not parsed"), *unauthenticated)
    assert_error(api.request(method, path, {}, bearer=admin_requests.token("authenticated")), *NOT_ADMIN)
    assert_error(api.request(method, path, {}, bearer=make_session().access_token), *NOT_ADMIN)


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_disabled_custom_providers_are_an_error(api: Api, method: str, path: str, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"enabled": False})
    response = ask(api, method, path, "not parsed")
    assert_error(response, 404, "feature_disabled", "Custom OAuth providers are disabled")


# Create


def test_create_an_oauth2_provider(api: Api) -> None:
    provider = create_provider(api, OAUTH2)
    assert without_times(provider) == RESPONSE
    row = CustomProvider.objects.get()
    assert provider["id"] == str(row.id)
    assert provider["created_at"] == provider["updated_at"] == row.created_at.isoformat().replace("+00:00", "Z")
    assert row.client_secret == "s"


def test_create_a_provider_with_all_members(api: Api) -> None:
    members = {
        "acceptable_client_ids": ["j", "k"],
        "scopes": ["a", "b"],
        "pkce_enabled": False,
        "attribute_mapping": {"nickname": "name", "locale": "en"},
        "custom_claims_allowlist": ["groups"],
        "authorization_params": {"prompt": "login"},
        "enabled": False,
        "email_optional": True,
        "skip_nonce_check": True,
        "jwks_uri": f"{PUBLIC}/j",
    }
    assert without_times(create_provider(api, {**OAUTH2, **members, "unknown": 1, "issuer": None})) == {
        **RESPONSE,
        **members,
    }


def test_the_discovery_document_of_an_oidc_provider_is_fetched(api: Api, issuer: Issuer) -> None:
    provider = create_provider(api, oidc_definition(issuer, scopes=["email"]))
    assert (provider["issuer"], provider["scopes"]) == (issuer.name, ["openid", "email"])
    assert provider["discovery_document"] == {
        "issuer": issuer.name,
        "authorization_endpoint": f"{issuer.name}/authorize",
        "token_endpoint": f"{issuer.name}/token",
        "userinfo_endpoint": f"{issuer.name}/userinfo",
        "jwks_uri": f"{issuer.name}/keys",
        "scopes_supported": ["openid", "email"],
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
    }
    assert "discovery_url" not in provider
    assert CustomProvider.objects.get().discovery_cached_at is not None


def test_the_scope_openid_is_added_once(api: Api, issuer: Issuer) -> None:
    assert create_provider(api, oidc_definition(issuer, scopes=["email", "openid"]))["scopes"] == ["email", "openid"]


def test_the_secret_is_encrypted(api: Api, auth_config: ChangeConfig) -> None:
    key = Secret("A" * 43)
    auth_config(
        database={"encrypt": True, "encryption_key_id": "k", "encryption_key": key, "decryption_keys": {"k": key}}
    )
    create_provider(api, OAUTH2)
    row = CustomProvider.objects.get()
    assert row.client_secret.startswith("{")
    assert encryption.decrypt(row.client_secret, bound_to=row.id) == "s"
    ask(api, "PUT", f"{PATH}/custom:acme", {"client_secret": "other"})
    row.refresh_from_db()
    assert row.client_secret.startswith("{")
    assert encryption.decrypt(row.client_secret, bound_to=row.id) == "other"


def without(name: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**OAUTH2, **changes}.items() if key != name}


TYPE = "provider_type must be either 'oauth2' or 'oidc'"
LIMITS = "must have at most"
FORM = "identifier must have 2 to 50 lower-case letters, digits, colons and hyphens, and end in a letter or digit"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, TYPE),
        (without("provider_type"), TYPE),
        ({**OAUTH2, "provider_type": "saml"}, TYPE),
        (without("identifier"), "identifier is required"),
        ({**OAUTH2, "identifier": "acme"}, "identifier must start with 'custom:' prefix, e.g. 'custom:acme'"),
        ({**OAUTH2, "identifier": "C:a"}, "identifier must start with 'custom:' prefix, e.g. 'custom:C:a'"),
        (without("name"), "name is required"),
        ({**OAUTH2, "name": ""}, "name is required"),
        (without("client_id"), "client_id is required"),
        (without("client_secret"), "client_secret is required"),
        ({**OAUTH2, "provider_type": "oidc"}, "issuer is required for OIDC providers"),
        (without("authorization_url"), "authorization_url is required for OAuth2 providers"),
        (without("token_url"), "token_url is required for OAuth2 providers"),
        (without("userinfo_url"), "userinfo_url is required for OAuth2 providers"),
        ({**OAUTH2, "identifier": "custom:"}, FORM),
        ({**OAUTH2, "identifier": "custom:Acme"}, FORM),
        ({**OAUTH2, "identifier": "custom:a_b"}, FORM),
        ({**OAUTH2, "identifier": "custom:a-"}, FORM),
        ({**OAUTH2, "identifier": f"custom:{'a' * 44}"}, FORM),
        ({**OAUTH2, "identifier": "custom:a\n"}, FORM),
        *(
            ({**OAUTH2, "authorization_params": {name: "x"}}, f"Cannot override reserved OAuth parameter: {name}")
            for name in (
                *("client_id", "client_secret", "redirect_uri", "response_type", "state", "code_challenge"),
                *("code_challenge_method", "code_verifier", "nonce", "State"),
            )
        ),
        ({**OAUTH2, "authorization_params": {"max_age": 5}}, 'Authorization parameter "max_age" must be a string'),
        *(
            ({**OAUTH2, "attribute_mapping": {name: "x"}}, f"Cannot map to protected system field: {name}")
            for name in (
                *("id", "aud", "role", "app_metadata", "created_at", "updated_at", "confirmed_at"),
                *("email_confirmed_at", "phone_confirmed_at", "email_verified", "phone_verified", "banned_until"),
                "is_super_admin",
            )
        ),
        ({**OAUTH2, "custom_claims_allowlist": [""]}, "custom_claims_allowlist entries must be non-empty strings"),
        ({**OAUTH2, "custom_claims_allowlist": ["a", 1]}, "custom_claims_allowlist entries must be non-empty strings"),
        ({**OAUTH2, "name": "x" * 101}, f"name {LIMITS} 100 characters"),
        ({**OAUTH2, "client_id": "x" * 513}, f"client_id {LIMITS} 512 characters"),
        ({**OAUTH2, "token_url": f"{PUBLIC}/{'x' * 2040}"}, f"a URL {LIMITS} 2048 characters"),
        ({**OAUTH2, "token_url": "http://8.8.8.8/t"}, "URL must use HTTPS"),
        ({**OAUTH2, "userinfo_url": "https://localhost/u"}, "URL cannot point to localhost or loopback addresses"),
        ({**OAUTH2, "authorization_url": "https://10.0.0.1/a"}, "URL cannot resolve to private network addresses"),
        ({**OAUTH2, "jwks_uri": "https://169.254.169.254/"}, "URL cannot resolve to cloud metadata endpoints"),
        ({**OAUTH2, "issuer": "javascript:alert(1)"}, "URL must use HTTPS"),
        ({**OAUTH2, "discovery_url": "https://unknown.invalid"}, "Unable to resolve hostname"),
    ],
)  # fmt: skip
def test_an_invalid_definition_is_an_error(api: Api, body: dict[str, Any], text: str) -> None:
    assert_error(create(api, body), *INVALID, text)
    assert not CustomProvider.objects.exists()


def test_the_first_error_of_a_definition_is_reported(api: Api) -> None:
    body = {**OAUTH2, "authorization_params": {"state": 1}, "attribute_mapping": {"aud": "x"}, "token_url": "http://x"}
    assert_error(create(api, body), *INVALID, "Cannot override reserved OAuth parameter: state")
    body["authorization_params"] = {}
    assert_error(create(api, body), *INVALID, "Cannot map to protected system field: aud")


@pytest.mark.parametrize(
    "body", [{"scopes": "profile"}, {"enabled": "yes"}, {"attribute_mapping": []}, {"scopes": [1]}, {"name": "a\0b"}]
)
def test_a_malformed_body_is_an_error(api: Api, body: dict[str, Any]) -> None:
    response = create(api, {**OAUTH2, **body})
    assert (response.status_code, response.json()["error_code"]) == (400, "bad_json")


def test_an_existing_identifier_is_an_error(api: Api) -> None:
    create_provider(api, OAUTH2)
    exists = (400, "conflict", "A custom OAuth provider with this identifier already exists")
    assert_error(create(api, OAUTH2), *exists)


def test_the_number_of_providers_is_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"max_providers": 1})
    create_provider(api, OAUTH2)
    full = (400, "over_custom_provider_quota", "Maximum number of custom OAuth/OIDC providers reached")
    assert_error(create(api, {**OAUTH2, "identifier": "custom:other"}), *full)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (PeerResponse(status=500), "status 500"),
        (PeerResponse(body=b"<html>"), "the document is not of the form that was expected"),
        (in_json({"issuer": "https://id.example.com"}), "the document is about another issuer"),
    ],
)
def test_an_invalid_discovery_document_is_an_error(
    api: Api, issuer: Issuer, response: PeerResponse, reason: str
) -> None:
    issuer.server.respond(response, path=issuer.discovery_path)
    text = f'OIDC discovery from "{issuer.name}/.well-known/openid-configuration" failed: {reason}'
    assert_error(create(api, oidc_definition(issuer)), *INVALID, text)


def test_a_discovery_document_without_required_members_is_an_error(api: Api, issuer: Issuer) -> None:
    text = "OIDC discovery document is missing required fields: "
    issuer.publish_discovery(token_endpoint=None, jwks_uri=None)
    assert_error(create(api, oidc_definition(issuer)), *INVALID, f"{text}token_endpoint, jwks_uri")
    issuer.server.respond(in_json({}), path=issuer.discovery_path)
    assert_error(
        create(api, oidc_definition(issuer)),
        *INVALID,
        f"{text}issuer, authorization_endpoint, token_endpoint, jwks_uri",
    )


def test_a_discovery_document_with_an_http_endpoint_is_an_error(api: Api, issuer: Issuer) -> None:
    issuer.publish_discovery(authorization_endpoint="http://8.8.8.8/authorize")
    response = create(api, oidc_definition(issuer))
    assert response.json()["msg"].endswith("failed: an address in the document is not an https one")


def test_the_discovery_document_may_have_another_url(api: Api, issuer: Issuer) -> None:
    discovery_url = f"{issuer.url}/metadata"
    issuer.server.respond(in_json({"issuer": "https://8.8.8.8", **endpoints(issuer)}), path="/metadata")
    provider = create_provider(api, oidc_definition(issuer, issuer="https://8.8.8.8", discovery_url=discovery_url))
    assert (provider["issuer"], provider["discovery_url"]) == ("https://8.8.8.8", discovery_url)


def endpoints(issuer: Issuer) -> dict[str, str]:
    return {
        "authorization_endpoint": f"{issuer.url}/authorize",
        "token_endpoint": f"{issuer.url}/token",
        "jwks_uri": f"{issuer.url}/keys",
    }


def test_an_issuer_at_a_private_address_is_not_called(api: Api, issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"private_networks_enabled": False})
    definition = oidc_definition(issuer, issuer="https://127.0.0.1")
    assert_error(create(api, definition), *INVALID, "URL cannot point to localhost or loopback addresses")
    assert issuer.server.received == []


# List and read


def test_an_empty_list(api: Api) -> None:
    response = ask(api, "GET", PATH)
    assert (response.status_code, response.json()) == (200, {"providers": []})


def test_the_list_is_ordered_by_creation(api: Api, issuer: Issuer) -> None:
    create_provider(api, {**OAUTH2, "authorization_url": f"{issuer.url}/a"})
    create_provider(api, oidc_definition(issuer))

    def identifiers(query: str) -> list[str]:
        return [provider["identifier"] for provider in ask(api, "GET", f"{PATH}{query}").json()["providers"]]

    assert identifiers("") == ["custom:corp", "custom:acme"]
    assert identifiers("?type=oidc") == ["custom:corp"]
    assert identifiers("?type=oauth2") == ["custom:acme"]
    assert_error(ask(api, "GET", f"{PATH}?type=saml"), *INVALID, "type must be either 'oauth2' or 'oidc'")


def test_get_a_provider(api: Api) -> None:
    provider = create_provider(api, OAUTH2)
    for path in (f"{PATH}/custom:acme", f"{PATH}/custom%3Aacme", f"{PATH}/custom:acme/"):
        response = ask(api, "GET", path)
        assert (response.status_code, response.json()) == (200, provider)


UNKNOWN = (404, "custom_provider_not_found", "Custom OAuth provider not found")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_unknown_provider_is_not_found(api: Api, method: str) -> None:
    assert_error(ask(api, method, f"{PATH}/custom:unknown", {}), *UNKNOWN)
    prefix = "identifier must start with 'custom:' prefix, e.g. 'custom:unknown'"
    assert_error(ask(api, method, f"{PATH}/unknown", {}), *INVALID, prefix)


# Update


def update(api: Api, body: dict[str, Any], identifier: str = "custom:acme") -> ApiResponse:
    return ask(api, "PUT", f"{PATH}/{identifier}", body)


def test_an_update_changes_only_the_present_members(api: Api) -> None:
    provider = create_provider(api, {**OAUTH2, "attribute_mapping": {"nickname": "name"}})
    response = update(api, {"name": "New", "enabled": False, "scopes": [], "attribute_mapping": {}})
    assert response.status_code == 200
    changed = response.json()
    assert without_times(changed) == {**RESPONSE, "name": "New", "enabled": False, "scopes": []}
    assert (changed["id"], changed["created_at"]) == (provider["id"], provider["created_at"])
    assert changed["updated_at"] > provider["updated_at"]
    assert ask(api, "GET", f"{PATH}/custom:acme").json() == changed
    assert CustomProvider.objects.get().client_secret == "s"


def test_an_update_ignores_empty_members_identifier_and_type(api: Api) -> None:
    create_provider(api, OAUTH2)
    body = {"name": "", "client_secret": "", "token_url": "", "provider_type": "oidc", "identifier": "custom:other"}
    assert without_times(update(api, body).json()) == RESPONSE
    assert CustomProvider.objects.get().client_secret == "s"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"token_url": "http://8.8.8.8/t"}, "URL must use HTTPS"),
        ({"token_url": "https://127.0.0.1/t"}, "URL cannot point to localhost or loopback addresses"),
        ({"name": "x" * 101}, "name must have at most 100 characters"),
        ({"authorization_params": {"state": "x"}}, "Cannot override reserved OAuth parameter: state"),
        ({"attribute_mapping": {"role": "x"}}, "Cannot map to protected system field: role"),
        ({"custom_claims_allowlist": [""]}, "custom_claims_allowlist entries must be non-empty strings"),
    ],
)
def test_an_invalid_update_is_an_error(api: Api, body: dict[str, Any], text: str) -> None:
    provider = create_provider(api, OAUTH2)
    assert_error(update(api, body), *INVALID, text)
    assert ask(api, "GET", f"{PATH}/custom:acme").json() == provider


def test_the_discovery_document_of_a_new_issuer_is_fetched(api: Api, issuer: Issuer) -> None:
    create_provider(api, oidc_definition(issuer))
    other = Issuer(issuer.server, path="/other", key=RSA)
    changed = update(api, {"issuer": other.name, "scopes": ["email"]}, "custom:corp").json()
    assert changed["discovery_document"]["token_endpoint"] == f"{other.url}/token"
    assert changed["scopes"] == ["openid", "email"]

    response = update(api, {"issuer": f"{issuer.url}/unknown"}, "custom:corp")
    text = f'OIDC discovery from "{issuer.url}/unknown/.well-known/openid-configuration" failed: status 404'
    assert_error(response, *INVALID, text)
    assert ask(api, "GET", f"{PATH}/custom:corp").json() == changed


# Delete


def test_delete_a_provider(api: Api) -> None:
    create_provider(api, OAUTH2)
    response = ask(api, "DELETE", f"{PATH}/custom:acme")
    assert (response.status_code, response.content) == (204, b"")
    assert_error(ask(api, "DELETE", f"{PATH}/custom:acme"), *UNKNOWN)
    create_provider(api, OAUTH2)


def test_audit_entries_show_changes_without_secrets(api: Api) -> None:
    create_provider(api, OAUTH2)
    ask(api, "PUT", f"{PATH}/custom:acme", {"client_secret": "a new secret", "token_url": "https://8.8.8.8/t2"})
    ask(api, "DELETE", f"{PATH}/custom:acme")
    created, updated, deleted = audit_payloads()
    assert [entry["action"] for entry in (created, updated, deleted)] == [
        "custom_provider_created", "custom_provider_updated", "custom_provider_deleted"
    ]  # fmt: skip
    assert {entry["traits"]["identifier"] for entry in (created, updated, deleted)} == {"custom:acme"}
    assert created["traits"]["changes"]["token_url"] == {"old": None, "new": OAUTH2["token_url"]}
    assert updated["traits"]["changes"] == {
        "client_secret": {"old": "[hidden]", "new": "[hidden]"},
        "token_url": {"old": OAUTH2["token_url"], "new": "https://8.8.8.8/t2"},
    }
    assert created["traits"]["changes"]["client_secret"] == {"old": None, "new": "[hidden]"}
    assert deleted["traits"]["changes"]["client_secret"] == {"old": "[hidden]", "new": None}


@pytest.mark.django_db(transaction=True)
def test_constraints_of_the_database(api: Api) -> None:
    """They apply to rows that no request has validated, such as imported ones."""
    create_provider(api, OAUTH2)
    attempts: list[Callable[[], object]] = [
        lambda: CustomProvider.objects.update(token_url="http://8.8.8.8"),
        lambda: CustomProvider.objects.update(identifier="Acme"),
        lambda: CustomProvider.objects.update(userinfo_url=None),
        lambda: CustomProvider.objects.update(provider_type="oidc"),
    ]
    for attempt in attempts:
        with pytest.raises(Exception, match="check"):
            attempt()
