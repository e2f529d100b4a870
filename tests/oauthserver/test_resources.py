"""Resource indicators (RFC 8707), metadata of protected resources (RFC 9728), and issuers with a path (RFC 8414)."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from oauthserver.clients.client_metadata import DEVICE_CODE
from oauthserver.models import DeviceAuthorization
from tests.conftest import Api, ChangeConfig
from tests.factories import make_session
from tests.oauthserver import client_application
from tests.oauthserver.client_application import (
    ISSUER,
    approve,
    exchange,
    query_of,
    refresh,
    register,
    request_token,
    show,
)  # fmt: skip
from tests.oauthserver.client_application import start as start_authorization
from tests.oauthserver.device_requests import approve as approve_device
from tests.oauthserver.device_requests import poll, start
from tests.observations import audit_payloads
from tests.tokens.token_requests import read_claims

pytestmark = pytest.mark.django_db

API, FILES = "https://api.example.com/v1", "https://files.example.com"


def audience(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    found: list[str] = read_claims(response.json()["access_token"])["aud"]
    return found


def error_of(response: Any) -> str:
    assert response.status_code == 400, response.content
    return str(response.json()["error"])


def test_several_resources_are_audiences_and_can_be_narrowed(api: Api) -> None:
    client = register(api)
    code = approve(api, client, make_session(), resource=[API, FILES])
    assert error_of(exchange(client, code, resource="https://other.example.com")) == "invalid_grant"

    response = exchange(client, code, resource=FILES)

    assert audience(response) == ["authenticated", FILES]
    tokens = response.json()
    both = refresh(client, tokens["refresh_token"])
    assert audience(both) == ["authenticated", API, FILES]
    narrowed = refresh(client, both.json()["refresh_token"], resource=API)
    assert audience(narrowed) == ["authenticated", API]
    again = refresh(client, narrowed.json()["refresh_token"], resource=[FILES, API])
    assert audience(again) == ["authenticated", FILES, API]
    newest = again.json()
    assert error_of(refresh(client, newest["refresh_token"], resource=[API, f"{API}/"])) == "invalid_target"
    assert audience(refresh(client, newest["refresh_token"])) == ["authenticated", API, FILES]


def test_the_own_api_accepts_tokens_with_further_audiences(api: Api) -> None:
    client = register(api)
    response = exchange(client, approve(api, client, make_session(), resource=[API, FILES]))
    for path in ("/oauth/userinfo", "/user"):
        assert api.get(path, bearer=response.json()["access_token"]).status_code == 200


def test_a_session_without_resources_gets_none_later(api: Api) -> None:
    client = register(api)
    tokens = exchange(client, approve(api, client, make_session())).json()
    assert read_claims(tokens["access_token"])["aud"] == "authenticated"
    assert error_of(refresh(client, tokens["refresh_token"], resource=API)) == "invalid_target"


@pytest.mark.parametrize("is_device", [False, True])
def test_a_former_consent_covers_its_resources_only(is_device: bool, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    client = register(api, grant_types=["authorization_code", "refresh_token", DEVICE_CODE])
    session = make_session()
    if is_device:
        approve_device(start(client, scope="openid email", resource=API), session)
    else:
        approve(api, client, session, resource=API)

    assert [entry["traits"].get("resource") for entry in audit_payloads()][-1] == API
    [grant] = api.get("/user/oauth/grants", bearer=session.access_token).json()
    assert grant["resource"] == [API]
    for covered in (API, None):
        shown = show(api, start_authorization(api, client, resource=covered), session).json()
        assert "redirect_url" in shown
    shown = show(api, start_authorization(api, client, resource=[API, FILES]), session).json()
    assert shown["resource"] == [API, FILES]
    silent = show(api, start_authorization(api, client, resource=FILES, prompt="none"), session).json()
    assert query_of(silent["redirect_url"])["error"] == "consent_required"


def test_each_resource_is_validated(api: Api) -> None:
    client = register(api)
    # White space separates resources, so that a text after it could become an audience without a check.
    hidden = [[f"{API}{space}{client.client_id}"] for space in ("\t", "\n", "\x1f", "\u2003")]
    for resources in ([API, "files"], [API, f"{FILES}#x"], [f"{FILES}?x", API], [API, "https://[::1"], *hidden):
        response = client_application.authorize(api, client, resource=resources)
        assert query_of(response.headers["Location"])["error"] == "invalid_request"
    many = client_application.authorize(api, client, method="POST", resource="x " * 1025)
    assert query_of(many.headers["Location"])["error"] == "server_error"


def test_resources_of_devices(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    client = register(api, grant_types=[DEVICE_CODE, "refresh_token"])
    started = start(client, resource=[API, FILES])
    assert DeviceAuthorization.objects.get().resource == f"{API} {FILES}"
    approve_device(started, make_session())
    assert error_of(poll(client, started, resource="https://other.example.com")) == "invalid_grant"
    response = poll(client, started, resource=API)
    assert audience(response) == ["authenticated", API]
    assert audience(refresh(client, response.json()["refresh_token"])) == ["authenticated", API, FILES]


def test_other_parameters_must_not_be_repeated(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})
    path = "/oauth/device_authorization"
    response = request_token(register(api, grant_types=[DEVICE_CODE]), path=path, scope=["email", "phone"])
    assert error_of(response) == "invalid_request"


def test_metadata_of_this_service_as_a_resource(api: Api) -> None:
    own = api.get("/.well-known/oauth-protected-resource")
    assert own.json()["resource"] == ISSUER
    assert own.json()["authorization_servers"] == [ISSUER]
    userinfo = api.get("/.well-known/oauth-protected-resource/oauth/userinfo")
    assert userinfo.json()["resource"] == f"{ISSUER}/oauth/userinfo"
    assert Client().get("/.well-known/oauth-protected-resource/user").status_code == 404
    refused = api.get("/oauth/userinfo")
    assert refused.status_code == 401
    url = f"{ISSUER}/.well-known/oauth-protected-resource/oauth/userinfo"
    assert refused.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{url}"'
    malformed = api.get("/oauth/userinfo", bearer="a.b.c")
    assert malformed.status_code == 403
    assert malformed.headers["WWW-Authenticate"] == f'Bearer error="invalid_token", resource_metadata="{url}"'
    assert "WWW-Authenticate" not in api.get("/user").headers


def test_metadata_of_an_issuer_with_a_path(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"issuer": "https://example.com/auth/v1"})
    expected = api.get("/.well-known/oauth-authorization-server").json()
    assert expected["issuer"] == "https://example.com/auth/v1"
    assert expected["token_endpoint"] == "https://example.com/auth/v1/oauth/token"
    for document in ("oauth-authorization-server", "openid-configuration"):
        assert Client().get(f"/.well-known/{document}/auth/v1").json() == expected
        assert Client().get(f"/.well-known/{document}/auth").status_code == 404
    for path in ("", "/auth/v1"):
        own = Client().get(f"/.well-known/oauth-protected-resource{path}").json()
        assert own["resource"] == "https://example.com/auth/v1"
    userinfo = Client().get("/.well-known/oauth-protected-resource/auth/v1/oauth/userinfo").json()
    assert userinfo["resource"] == "https://example.com/auth/v1/oauth/userinfo"


def test_metadata_of_a_disabled_server(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"enabled": False})
    for document in ("oauth-authorization-server/x", "openid-configuration/x", "oauth-protected-resource"):
        response = Client().get(f"/.well-known/{document}")
        assert (response.status_code, response.json()["error_code"]) == (404, "feature_disabled")
