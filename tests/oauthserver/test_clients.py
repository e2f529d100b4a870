"""Clients: administration, dynamic registration, metadata and secrets."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from authsvc.jobs import cleanup
from authsvc.security import crypto
from oauthserver.clients import views
from oauthserver.models import OAuthAuthorization, OAuthClient, OAuthConsent
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import make_session
from tests.oauthserver import client_application
from tests.oauthserver.client_application import CALLBACK
from tests.observations import assert_error, audit_payloads

pytestmark = pytest.mark.django_db

PATH = "/admin/oauth/clients"
UNKNOWN = "11111111-1111-4111-8111-111111111111"


def register(api: Api, **metadata: Any) -> ApiResponse:
    return admin_requests.ask(api, "POST", PATH, {"redirect_uris": [CALLBACK], **metadata})


def change(api: Api, client_id: str, **changes: Any) -> ApiResponse:
    return admin_requests.ask(api, "PUT", f"{PATH}/{client_id}", changes)


def test_only_administrators_manage_clients(api: Api) -> None:
    assert api.get(PATH).status_code == 401
    assert api.get(PATH, bearer=make_session().access_token).status_code == 403


def test_disabled_server(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"enabled": False})
    disabled = (404, "feature_disabled", "OAuth server is disabled")
    assert_error(api.get("/oauth/authorize"), *disabled)
    assert_error(api.get("/.well-known/oauth-authorization-server"), *disabled)
    assert_error(api.get("/oauth/userinfo"), *disabled)
    assert_error(api.post("/oauth/token", {}), *disabled)
    assert_error(api.get("/oauth/token"), 405, "unknown", "Method Not Allowed")
    assert api.get(PATH).status_code == 401
    assert_error(admin_requests.ask(api, "GET", PATH), *disabled)
    assert_error(api.get("/user/oauth/grants", bearer=make_session().access_token), *disabled)


def test_minimal_registration(api: Api) -> None:
    response = register(api)

    assert response.status_code == 201
    client = response.json()
    row = OAuthClient.objects.get(id=client["client_id"])
    secret = client["client_secret"]
    assert len(secret) == 43
    assert row.client_secret_hash == crypto.base64url_encode(hashlib.sha256(secret.encode()).digest())
    assert {name: client[name] for name in client if not name.endswith(("_at", "_id", "_secret"))} == {
        "client_type": "confidential",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "client_secret_basic",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "client_name": "",
        "registration_type": "manual",
    }
    (entry,) = audit_payloads()
    assert (entry["action"], entry["log_type"]) == ("oauth_client_created", "oauth_client")
    assert secret not in str(entry)
    assert str(row.client_secret_hash) not in str(entry)


def test_public_client_has_no_secret(api: Api) -> None:
    client = register(api, token_endpoint_auth_method="none").json()
    assert (client["client_type"], "client_secret" in client) == ("public", False)
    assert register(api, client_type="public").json()["token_endpoint_auth_method"] == "none"


def test_redirect_uris_are_stored_unchanged(api: Api) -> None:
    uris = ["http://[::1]:8080/cb", "myapp://callback", "https://a.example/cb?x=1", "HTTPS://a/"]
    assert register(api, redirect_uris=uris).json()["redirect_uris"] == uris


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"redirect_uris": []}, "redirect_uris is required"),
        ({"redirect_uris": None}, "redirect_uris is required"),
        ({"redirect_uris": [CALLBACK] * 11}, "redirect_uris cannot exceed 10 items"),
        (
            {"redirect_uris": [CALLBACK, "https://a/cb#"]},
            "invalid redirect_uri 'https://a/cb#': fragment not allowed in redirect URI",
        ),
        ({"grant_types": ["password"]}, "grant_types must only contain 'authorization_code' and/or 'refresh_token'"),
        ({"client_name": "é" * 513}, "client_name cannot exceed 1024 characters"),
        ({"client_uri": "https://" + "x" * 2041}, "client_uri cannot exceed 2048 characters"),
        ({"client_uri": "not-a-valid-url"}, "client_uri must be a valid URL"),
        ({"logo_uri": "javascript:alert(1)"}, "logo_uri must be a valid URL"),
        ({"client_type": "other"}, "client_type must be 'public' or 'confidential'"),
        (
            {"token_endpoint_auth_method": "private_key"},
            "token_endpoint_auth_method must be one of: [none client_secret_basic client_secret_post]",
        ),
        (
            {"client_type": "public", "token_endpoint_auth_method": "client_secret_post"},
            (
                "client_type 'public' is inconsistent with token_endpoint_auth_method 'client_secret_post'"
                " (expected client_type 'confidential')"
            ),
        ),
    ],
)
def test_refused_metadata(metadata: dict[str, Any], message: str, api: Api) -> None:
    assert_error(register(api, **metadata), 400, "validation_failed", message)
    dynamic = api.post("/oauth/clients/register", {"redirect_uris": [CALLBACK], **metadata})
    kind = "redirect_uri" if "redirect_uri" in message else "client_metadata"
    further = {"error": f"invalid_{kind}", "error_description": message}
    assert_error(dynamic, 400, "validation_failed", message, **further)
    assert not OAuthClient.objects.exists()


def test_repeated_values_are_stored_once(api: Api) -> None:
    values = {"redirect_uris": [CALLBACK, CALLBACK], "grant_types": ["authorization_code"] * 1000}
    client = register(api, **values).json()
    assert (client["redirect_uris"], client["grant_types"]) == ([CALLBACK], ["authorization_code"])
    assert change(api, client["client_id"], **values).json()["grant_types"] == ["authorization_code"]


def test_unreadable_bodies(api: Api) -> None:
    for body in ("{", "[]", {"redirect_uris": "x"}):
        response = admin_requests.ask(api, "POST", PATH, body)
        assert_error(response, 400, "bad_json", "Invalid JSON body")


def test_dynamic_registration(api: Api, auth_config: ChangeConfig) -> None:
    body = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none", "scope": "openid"}
    client = api.post("/oauth/clients/register", body).json()
    assert (client["registration_type"], "client_secret_expires_at" in client) == ("dynamic", False)
    row = OAuthClient.objects.get(id=client["client_id"])
    assert client["client_id_issued_at"] == int(row.created_at.timestamp())
    confidential = api.post("/oauth/clients/register", {"redirect_uris": [CALLBACK]}).json()
    assert (confidential["client_secret_expires_at"], len(confidential["client_secret"])) == (0, 43)
    assert audit_payloads()[-1]["actor_sub"] == "dynamic client registration"

    auth_config(oauth_server={"allow_dynamic_registration": False})
    assert_error(
        api.post("/oauth/clients/register", body),
        403,
        "oauth_dynamic_client_registration_disabled",
        "Dynamic client registration is not enabled",
    )


def test_dynamic_registration_is_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"oauth_registration": 0.001})
    statuses = [api.post("/oauth/clients/register", {}).status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]


def test_list(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert admin_requests.expect_success(api, "GET", PATH) == {"clients": []}
    for name in ("first", "second", "third"):
        register(api, client_name=name)

    clients = admin_requests.expect_success(api, "GET", f"{PATH}?page=&per_page=")["clients"]

    assert [client["client_name"] for client in clients] == ["third", "second", "first"]
    assert not any("client_secret" in client for client in clients)
    page = admin_requests.ask(api, "GET", f"{PATH}?page=2&per_page=2")
    assert [client["client_name"] for client in page.json()["clients"]] == ["first"]
    assert page.headers["X-Total-Count"] == "3"
    monkeypatch.setattr(views, "MAX_CLIENTS", 2)
    newest = admin_requests.ask(api, "GET", PATH)
    assert [client["client_name"] for client in newest.json()["clients"]] == ["third", "second"]
    assert f'<{PATH}?page=2&per_page=2>; rel="next"' in newest.headers["Link"]


def test_update(api: Api) -> None:
    client = register(api, client_name="Example", client_uri="https://example.com").json()

    changed = change(api, client["client_id"], client_name="", redirect_uris=["myapp://cb"], client_uri=None).json()

    assert (changed["client_name"], changed["redirect_uris"]) == ("", ["myapp://cb"])
    assert changed["client_uri"] == "https://example.com"
    assert changed["updated_at"] > client["updated_at"]
    changes = audit_payloads()[-1]["traits"]["changes"]
    assert changes["client_name"] == {"old": "Example", "new": None}


REFUSED_UPDATES: list[tuple[dict[str, Any], str]] = [
    ({}, "No fields provided for update"),
    ({"client_type": "public"}, "No fields provided for update"),
    ({"redirect_uris": []}, "redirect_uris cannot be empty"),
    ({"redirect_uris": ["invalid-uri"]}, "invalid redirect_uri 'invalid-uri': must have scheme and host"),
    ({"grant_types": []}, "grant_types cannot be empty"),
    (
        {"token_endpoint_auth_method": "none"},
        (
            "token_endpoint_auth_method 'none' is not valid for client_type 'confidential';"
            " valid methods: [client_secret_basic client_secret_post]"
        ),
    ),
    (
        {"token_endpoint_auth_method": "x"},
        "invalid token_endpoint_auth_method: must be one of [none client_secret_basic client_secret_post]",
    ),
]


def test_refused_updates(api: Api) -> None:
    client = register(api).json()
    for changes, message in REFUSED_UPDATES:
        assert_error(change(api, client["client_id"], **changes), 400, "validation_failed", message)
    assert (
        admin_requests.expect_success(api, "GET", f"{PATH}/{client['client_id']}")["updated_at"] == client["updated_at"]
    )


def test_unknown_clients(api: Api) -> None:
    for method in ("GET", "PUT", "DELETE"):
        unknown = admin_requests.ask(api, method, f"{PATH}/{UNKNOWN}", {"client_name": "x"})
        assert_error(unknown, 404, "oauth_client_not_found", "OAuth client not found")
        malformed = admin_requests.ask(api, method, f"{PATH}/abc", {"client_name": "x"})
        assert_error(malformed, 400, "validation_failed", "invalid client_id format")


def test_deleted_client(api: Api) -> None:
    application = client_application.register(api)
    session = make_session()
    code = client_application.approve(api, application, session)
    tokens = client_application.exchange(application, code).json()
    pending = client_application.start(api, application)
    path = f"{PATH}/{application.client_id}"

    assert admin_requests.ask(api, "DELETE", path).status_code == 204

    assert admin_requests.ask(api, "GET", path).status_code == 404
    assert_error(client_application.authorize(api, application), 400, "oauth_client_not_found", "invalid client_id")
    refused = client_application.refresh(application, tokens["refresh_token"])
    assert_error(
        refused,
        400,
        "invalid_credentials",
        "Invalid client credentials",
        error="invalid_client",
        error_description="Invalid client credentials",
    )
    # Its open requests end with it; its session is explained by the row that remains.
    assert client_application.show(api, pending, session).status_code == 404
    assert list(OAuthAuthorization.objects.values_list("status", flat=True)) == ["exchanged"]
    assert api.get("/oauth/userinfo", bearer=tokens["access_token"]).status_code == 200


def test_regenerated_secret(api: Api) -> None:
    application = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    path = f"{PATH}/{application.client_id}/regenerate_secret"

    response = admin_requests.ask(api, "POST", path)

    new = client_application.Application(application.client_id, response.json()["client_secret"], application.method)
    assert new.secret != application.secret
    assert client_application.request_token(application).json()["error"] == "invalid_client"
    assert client_application.request_token(new).json()["error"] == "invalid_request"
    public = client_application.register(api)
    assert_error(
        admin_requests.ask(api, "POST", f"{PATH}/{public.client_id}/regenerate_secret"),
        400,
        "validation_failed",
        "Cannot regenerate secret for public client",
    )


def test_unused_clients_that_registered_themselves_are_deleted(api: Api) -> None:
    on_the_hour = timezone.now().replace(minute=0)
    month, day = timedelta(days=30), timedelta(days=1)
    session = make_session()

    def make(name: str, *, age: timedelta = month + day, manual: bool = False) -> client_application.Application:
        body = {"redirect_uris": [CALLBACK], "client_name": name, "token_endpoint_auth_method": "none"}
        path = "/oauth/clients/register"
        response = admin_requests.ask(api, "POST", PATH, body) if manual else api.post(path, body)
        client_id = response.json()["client_id"]
        OAuthClient.objects.filter(id=client_id).update(created_at=on_the_hour - age)
        return client_application.Application(client_id)

    make("unused")
    make("new", age=month - day)
    make("manual", manual=True)
    client_application.start(api, make("in use"))
    client_application.approve(api, make("consent"), session)
    OAuthAuthorization.objects.filter(client__client_name="consent").delete()
    client_application.sign_in(api, make("session"), session)
    OAuthAuthorization.objects.filter(client__client_name="session").delete()
    OAuthConsent.objects.filter(client__client_name="session").delete()

    cleanup.run(at=on_the_hour + timedelta(minutes=1))
    assert OAuthClient.objects.count() == 6
    cleanup.run(at=on_the_hour)

    left = OAuthClient.objects.values_list("client_name", flat=True)
    assert set(left) == {"new", "manual", "in use", "consent", "session"}
