"""POST /oauth/par: pushed authorization requests (RFC 9126)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection, transaction

from oauthserver.models import OAuthAuthorization, OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import CHALLENGE, make_session
from tests.oauthserver import client_keys
from tests.oauthserver.client_application import (
    CALLBACK,
    ISSUER,
    Application,
    authorize,
    decide,
    exchange,
    post_form,
    query_of,
    register,
    request_token,
    show,
)  # fmt: skip
from tests.observations import assert_error, table_contents

pytestmark = pytest.mark.django_db

PREFIX = "urn:ietf:params:oauth:request_uri:"
PARAMETERS: dict[str, Any] = {
    "redirect_uri": CALLBACK,
    "response_type": "code",
    "scope": "openid email",
    "state": "x y",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
    "nonce": "n-1",
}


def push(client: Application, **changes: Any) -> ApiResponse:
    return request_token(client, path="/oauth/par", **{**PARAMETERS, **changes})


def push_request(client: Application, **changes: Any) -> str:
    response = push(client, **changes)
    assert response.status_code == 201, response.content
    return str(response.json()["request_uri"])


def begin(api: Api, client_id: str, request_uri: str, **others: str) -> ApiResponse:
    return api.get(f"/oauth/authorize?{urlencode({'client_id': client_id, 'request_uri': request_uri, **others})}")


@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_a_flow_with_a_pushed_request(method: str, api: Api) -> None:
    client, session = register(api, token_endpoint_auth_method=method), make_session()
    response = push(client)
    content = response.json()
    assert (response.status_code, content["expires_in"], set(content)) == (201, 90, {"request_uri", "expires_in"})
    assert content["request_uri"].startswith(PREFIX)
    assert len(content["request_uri"]) == len(PREFIX) + 43
    assert response.headers["Cache-Control"] == "no-store"
    assert content["request_uri"] not in str(OAuthAuthorization.objects.values().get())

    # The parameters of the browser do not count.
    started = begin(api, client.client_id, content["request_uri"], scope="phone", redirect_uri="https://evil.example")

    assert (started.status_code, started.headers["Referrer-Policy"]) == (302, "no-referrer")
    authorization_id = query_of(started.headers["Location"])["authorization_id"]
    details = show(api, authorization_id, session).json()
    assert (details["scope"], details["redirect_uri"]) == ("openid email", CALLBACK)
    returned = query_of(decide(api, authorization_id, session).json()["redirect_url"])
    assert (returned["state"], returned["iss"]) == ("x y", ISSUER)
    assert exchange(client, returned["code"]).status_code == 200


def test_a_request_uri_works_once_and_for_its_client(api: Api) -> None:
    client, other = register(api), register(api)
    request_uri = push_request(client)
    invalid = (400, "validation_failed", "invalid request_uri")
    assert_error(begin(api, other.client_id, request_uri), *invalid)
    assert_error(begin(api, client.client_id, request_uri + "x"), *invalid)
    assert_error(begin(api, client.client_id, PREFIX), *invalid)
    assert_error(begin(api, client.client_id, PREFIX + "\0"), *invalid)
    assert_error(begin(api, "", request_uri), 400, "validation_failed", "client_id is required")
    assert_error(begin(api, "x", request_uri), 400, "oauth_client_not_found", "invalid client_id format")
    assert begin(api, client.client_id, request_uri).status_code == 302
    assert_error(begin(api, client.client_id, request_uri), *invalid)


def test_a_pushed_request_expires_and_begins_anew(api: Api, auth_config: ChangeConfig) -> None:
    client = register(api)
    request_uri = push_request(client)
    row = OAuthAuthorization.objects.get()
    assert row.expires_at - row.created_at == timedelta(seconds=90)
    begin(api, client.client_id, request_uri)
    row.refresh_from_db()
    assert (row.expires_at - row.created_at, row.request_uri) == (timedelta(minutes=10), None)
    request_uri = push_request(client)
    past = timedelta(seconds=91)
    row = OAuthAuthorization.objects.get(request_uri__isnull=False)
    OAuthAuthorization.objects.filter(id=row.id).update(
        created_at=row.created_at - past, expires_at=row.expires_at - past
    )
    assert_error(begin(api, client.client_id, request_uri), 400, "validation_failed", "invalid request_uri")


def test_changes_of_the_client_count(api: Api) -> None:
    client = register(api)
    first, second = push_request(client), push_request(client)
    path = f"/admin/oauth/clients/{client.client_id}"
    admin_requests.ask(api, "PUT", path, {"redirect_uris": ["https://new.example/cb"]})
    assert_error(begin(api, client.client_id, first), 400, "validation_failed", "invalid redirect_uri")
    admin_requests.ask(api, "DELETE", path)
    assert_error(begin(api, client.client_id, second), 400, "validation_failed", "invalid request_uri")


@pytest.mark.parametrize(
    ("changes", "error", "description"),
    [
        ({"redirect_uri": None}, "invalid_request", "redirect_uri is required"),
        ({"redirect_uri": "https://evil.example/"}, "invalid_request", "invalid redirect_uri"),
        ({"response_type": "token"}, "invalid_request", "only response_type=code is supported"),
        ({"scope": "admin"}, "invalid_request", "unsupported scope: admin"),
        (
            {"code_challenge": None},
            "invalid_request",
            "PKCE flow requires both code_challenge and code_challenge_method",
        ),
        ({"resource": "https://a/#b"}, "invalid_request", "resource must not include a fragment component"),
        ({"request": "a.b.c"}, "request_not_supported", "request objects are not supported"),
        ({"request_uri": PREFIX + "x"}, "request_uri_not_supported", "request objects are not supported"),
        ({"state": "x" * 4097}, "invalid_request", "error creating authorization"),
        ({"nonce": "\0"}, "invalid_request", "error creating authorization"),
        ({"max_age": "x"}, "invalid_request", "max_age must be a number of seconds"),
    ],
)
def test_refused_requests(changes: dict[str, Any], error: str, description: str, api: Api) -> None:
    client = register(api, token_endpoint_auth_method="client_secret_basic")
    before = table_contents()
    response = push(client, **changes)
    body = response.json()
    assert (response.status_code, body["error"], body["error_description"]) == (400, error, description)
    assert table_contents() == before


def test_an_unavailable_database_is_no_mistake_of_the_client(api: Api) -> None:
    client = register(api, token_endpoint_auth_method="client_secret_post")
    savepoint = transaction.savepoint()
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")  # as a standby
    response = push(client)
    transaction.set_rollback(False)
    transaction.savepoint_rollback(savepoint)
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")


def test_refused_clients(api: Api) -> None:
    client, other = register(api, token_endpoint_auth_method="client_secret_basic"), register(api)
    wrong = push(Application(client.client_id, "x" * 43, client.method))
    assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_client")
    mixed = push(client, client_id=other.client_id)
    assert mixed.json()["error_description"] == "client_id is not that of the authenticated client"
    repeated = post_form(urlencode([*PARAMETERS.items(), ("scope", "x")]), headers=client.basic, path="/oauth/par")
    assert repeated.json()["error_description"] == "a parameter is included more than once"
    assert not OAuthAuthorization.objects.exists()


def test_a_client_that_must_push(api: Api) -> None:
    client = register(api, require_pushed_authorization_requests=True)
    assert OAuthClient.objects.get().require_pushed_authorization_requests
    refused = query_of(authorize(api, client).headers["Location"])
    assert (refused["error"], refused["error_description"], refused["state"]) == (
        "invalid_request",
        "the client must push authorization requests",
        "xyz",
    )
    assert begin(api, client.client_id, push_request(client)).status_code == 302
    path = f"/admin/oauth/clients/{client.client_id}"
    changed = admin_requests.ask(api, "PUT", path, {"require_pushed_authorization_requests": False}).json()
    assert "require_pushed_authorization_requests" not in changed
    assert "authorization_id" in query_of(authorize(api, client).headers["Location"])


def test_assertions_authenticate_pushes(api: Api) -> None:
    client = register(api, token_endpoint_auth_method="private_key_jwt", jwks=client_keys.JWKS)
    token = client_keys.assertion(client.client_id, aud=f"{ISSUER}/oauth/par")
    response = client_keys.post(token, path="/oauth/par", **PARAMETERS)
    assert begin(api, client.client_id, response.json()["request_uri"]).status_code == 302


def test_disabled(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"enabled": False})
    assert post_form("", path="/oauth/par").json()["error_code"] == "feature_disabled"


def test_discovery(api: Api) -> None:
    document = api.get("/.well-known/openid-configuration").json()
    assert document["pushed_authorization_request_endpoint"] == f"{ISSUER}/oauth/par"
    assert document["require_pushed_authorization_requests"] is False
