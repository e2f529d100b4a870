"""GET /oauth/authorize: checks before and after the redirect URI is known, and the stored request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from authsvc.jobs import cleanup
from oauthserver import tasks
from oauthserver.models import OAuthAuthorization
from tests.conftest import Api, ChangeConfig
from tests.factories import CHALLENGE
from tests.oauthserver.client_application import CALLBACK, ISSUER, authorize, post_form, query_of, register, start
from tests.observations import assert_error

pytestmark = pytest.mark.django_db

UNKNOWN = "11111111-1111-4111-8111-111111111111"


ERRORS_WITHOUT_REDIRECT: list[tuple[dict[str, Any], str, str]] = [
    ({"client_id": None}, "validation_failed", "client_id is required"),
    ({"redirect_uri": None}, "validation_failed", "redirect_uri is required"),
    ({"client_id": "abc"}, "oauth_client_not_found", "invalid client_id format"),
    ({"client_id": UNKNOWN}, "oauth_client_not_found", "invalid client_id"),
    ({"redirect_uri": CALLBACK + "/"}, "validation_failed", "invalid redirect_uri"),
    ({"redirect_uri": "https://client.example.com:444/cb"}, "validation_failed", "invalid redirect_uri"),
    ({"redirect_uri": "https://CLIENT.example.com/cb"}, "validation_failed", "invalid redirect_uri"),
]


def test_errors_without_a_valid_redirect_uri(api: Api) -> None:
    application = register(api)
    for changes, code, message in ERRORS_WITHOUT_REDIRECT:
        response = authorize(api, application, **changes)
        assert_error(response, 400, code, message)
        assert "Location" not in response.headers
    assert not OAuthAuthorization.objects.exists()


ERRORS_WITH_REDIRECT: list[tuple[dict[str, Any], str, str]] = [
    ({"response_type": "token"}, "invalid_request", "only response_type=code is supported"),
    ({"scope": "foo"}, "invalid_request", "unsupported scope: foo"),
    ({"scope": "openid Email"}, "invalid_request", "unsupported scope: Email"),
    ({"scope": "  "}, "invalid_request", "scope parameter cannot be empty"),
    (
        {"code_challenge": None},
        "invalid_request",
        "PKCE flow requires both code_challenge and code_challenge_method",
    ),
    (
        {"code_challenge_method": None},
        "invalid_request",
        "PKCE flow requires both code_challenge and code_challenge_method",
    ),
    ({"code_challenge_method": "S512"}, "invalid_request", "code_challenge_method must be 'S256' or 'plain'"),
    ({"code_challenge": "x" * 42}, "invalid_request", "code_challenge must be between 43 and 128 characters"),
    ({"resource": "https://[::1"}, "invalid_request", "resource must be a valid URI"),
    ({"resource": "/api"}, "invalid_request", "resource must be an absolute URI"),
    (
        {"resource": "https://api.example.com#x"},
        "invalid_request",
        "resource must not include a fragment component",
    ),
    ({"resource": "https://api.example.com?x"}, "invalid_request", "resource must not include a query component"),
    ({"prompt": "none login"}, "invalid_request", "prompt=none cannot be combined with other values"),
    ({"max_age": "-1"}, "invalid_request", "max_age must be a number of seconds"),
    ({"request": "e30.e30."}, "request_not_supported", "request objects are not supported"),
    ({"request_uri": "https://x.example/r"}, "request_uri_not_supported", "request objects are not supported"),
    ({"nonce": "n" * 256}, "server_error", "error creating authorization"),
    ({"nonce": "\0"}, "server_error", "error creating authorization"),
]


def test_errors_that_the_client_receives(api: Api) -> None:
    application = register(api)
    for changes, error, description in ERRORS_WITH_REDIRECT:
        response = authorize(api, application, **changes)
        assert response.status_code == 302
        location = response.headers["Location"]
        assert location.startswith(f"{CALLBACK}?")
        assert query_of(location) == {"error": error, "error_description": description, "iss": ISSUER, "state": "xyz"}
        assert response.headers["Referrer-Policy"] == "no-referrer"
    assert not OAuthAuthorization.objects.exists()


def test_request_is_stored(api: Api) -> None:
    application = register(api)

    response = authorize(api, application, nonce="n-1", resource="https://api.example.com/v1", state="")

    location = response.headers["Location"]
    row = OAuthAuthorization.objects.get()
    assert location == f"http://localhost:3000/oauth/consent?authorization_id={row.authorization_id}"
    assert len(row.authorization_id) == 32
    assert set(row.authorization_id) <= set("abcdefghijklmnopqrstuvwxyz234567")
    assert (row.status, row.user_id, row.state, row.nonce) == ("pending", None, None, "n-1")
    assert (row.code_challenge, row.code_challenge_method) == (CHALLENGE, "s256")
    assert row.resource == "https://api.example.com/v1"
    assert row.expires_at - row.created_at == timedelta(minutes=10)


def test_parameters_in_a_form(api: Api) -> None:
    application = register(api)
    location = authorize(api, application, method="POST", scope="email  phone", nonce="ä +").headers["Location"]
    row = OAuthAuthorization.objects.get()
    assert query_of(location) == {"authorization_id": row.authorization_id}
    assert (row.scope, row.nonce, row.state, row.code_challenge) == ("email  phone", "ä +", "xyz", CHALLENGE)
    assert_error(
        authorize(api, application, method="POST", client_id=None), 400, "validation_failed", "client_id is required"
    )
    # Nothing of a form is in the query, and of a query nothing in the form.
    assert post_form("", path=f"/oauth/authorize?client_id={application.client_id}").status_code == 400


def test_defaults(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"authorization_path": "consent?from=oauth"})
    response = authorize(api, register(api), scope=None, response_type=None)
    assert "/consent?from=oauth&authorization_id=" in response.headers["Location"]
    assert OAuthAuthorization.objects.get().scope == "email"

    auth_config(oauth_server={"default_scope": ""})
    refused = authorize(api, register(api), scope=None)
    assert query_of(refused.headers["Location"])["error_description"] == "scope parameter is required"


def test_query_of_the_redirect_uri_is_kept(api: Api) -> None:
    application = register(api, redirect_uris=["https://client.example.com/cb?a=1&z=2"])
    response = authorize(api, application, redirect_uri="https://client.example.com/cb?a=1&z=2", scope="foo")
    assert response.headers["Location"] == (
        "https://client.example.com/cb?a=1&error=invalid_request&error_description=unsupported+scope%3A+foo"
        "&iss=https%3A%2F%2Fauth.example.com&state=xyz&z=2"
    )


def test_missing_consent_page(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(oauth_server={"authorization_path": ""})
    response = authorize(api, register(api))
    parameters = query_of(response.headers["Location"])
    assert (parameters["error"], parameters["error_description"]) == (
        "server_error",
        "oauth authorization path not configured",
    )
    assert not OAuthAuthorization.objects.exists()


def test_plain_pkce_can_be_refused(api: Api, auth_config: ChangeConfig) -> None:
    application = register(api)
    assert start(api, application, code_challenge_method="PLAIN")
    assert OAuthAuthorization.objects.get().code_challenge_method == "plain"
    auth_config(oauth_server={"allow_plain_pkce": False})
    refused = authorize(api, application, code_challenge_method="plain")
    assert query_of(refused.headers["Location"])["error_description"] == "code_challenge_method must be 'S256'"
    metadata = api.get("/.well-known/oauth-authorization-server").json()
    assert metadata["code_challenge_methods_supported"] == ["S256"]


def test_openid_needs_an_asymmetric_key(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (), "valid_methods": ()})
    refused = query_of(authorize(api, register(api)).headers["Location"])
    assert (refused["error"], refused["error_description"]) == (
        "invalid_scope",
        "openid scope requires an asymmetric signing key",
    )
    assert "openid" not in api.get("/.well-known/openid-configuration").json()["scopes_supported"]


def test_expired_requests_are_deleted(api: Api) -> None:
    application = register(api)
    kept, expired = start(api, application), start(api, application)
    rows = OAuthAuthorization.objects.filter(authorization_id=expired)
    long_ago = timezone.now() - timedelta(hours=25)
    rows.update(created_at=long_ago, expires_at=long_ago + timedelta(minutes=1))
    assert tasks.__name__ == "oauthserver.tasks"  # it registers the rule
    cleanup.run(at=timezone.now(), only_mandatory=True)
    assert [row.authorization_id for row in OAuthAuthorization.objects.all()] == [kept]


def test_scripts_of_other_origins_cannot_read_the_response(api: Api) -> None:
    """RFC 9700 §2.6: no CORS at the authorization endpoint."""
    origin = {"Origin": "https://client.example.com"}
    client_id = register(api).client_id
    for path in (f"/oauth/authorize?client_id={client_id}&redirect_uri={CALLBACK}", "/oauth/authorize"):
        assert "Access-Control-Allow-Origin" not in api.get(path, headers=origin).headers
    assert "Access-Control-Allow-Origin" in api.get("/settings", headers=origin).headers
