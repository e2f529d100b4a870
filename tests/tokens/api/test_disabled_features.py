"""Routes and the grant of features that the server does not have: the errors that clients expect."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from authsvc.api.openapi import operations
from tests.accounts.administration import admin_requests
from tests.conftest import Api
from tests.factories import make_session, make_user
from tests.observations import assert_error
from tokens.api import disabled_features

pytestmark = pytest.mark.django_db

urlpatterns = [*disabled_features.oauth_server_routes, *disabled_features.urlpatterns]
"""The routes without the app `oauthserver`."""

OAUTH_SERVER = (404, "feature_disabled", "OAuth server is disabled")
SAML = (404, "saml_provider_disabled", "SAML 2.0 is disabled")


@pytest.mark.parametrize(
    ("method", "path", "error"),
    [
        ("POST", "/sso", SAML),
        ("GET", "/sso/saml/metadata", SAML),
        ("POST", "/sso/saml/acs", SAML),
        ("GET", "/.well-known/oauth-authorization-server", OAUTH_SERVER),
        ("GET", "/oauth/authorize?client_id=x", OAUTH_SERVER),
        ("GET", "/oauth/authorizations/x", OAUTH_SERVER),
        ("POST", "/oauth/authorizations/x/consent", OAUTH_SERVER),
        ("POST", "/oauth/clients/register", OAUTH_SERVER),
        ("POST", "/oauth/token", OAUTH_SERVER),
        ("GET", "/oauth/userinfo", OAUTH_SERVER),
    ],
)
def test_a_disabled_feature_is_named_before_anything_else(
    method: str, path: str, error: tuple[int, str, str], api: Api, settings: Settings
) -> None:
    assert_error(api.request(method, path), *error)
    assert api.request("DELETE", path).status_code == 405

    settings.ROOT_URLCONF = __name__
    assert_error(api.request(method, path), *error)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin/oauth/clients"),
        ("POST", "/admin/oauth/clients"),
        ("PUT", "/admin/oauth/clients/x"),
        ("POST", "/admin/oauth/clients/x/regenerate_secret"),
    ],
)
def test_only_administrators_learn_that_a_feature_is_disabled(method: str, path: str, api: Api) -> None:
    session = make_session(make_user())
    assert api.request(method, path).status_code == 401
    assert api.request(method, path, bearer=session.access_token).status_code == 403
    assert_error(admin_requests.ask(api, method, path), *OAUTH_SERVER)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_only_users_learn_that_they_can_have_no_grants(method: str, api: Api) -> None:
    session = make_session(make_user())
    assert api.request(method, "/user/oauth/grants").status_code == 401
    assert_error(api.request(method, "/user/oauth/grants", bearer=session.access_token), *OAUTH_SERVER)


def test_sign_in_by_wallet_is_disabled(api: Api) -> None:
    response = api.post("/token?grant_type=web3", {"chain": "ethereum", "message": "m", "signature": "0x"})
    assert_error(response, 422, "web3_provider_disabled", "Web3 provider is disabled")


def test_the_description_contains_no_disabled_feature() -> None:
    described = {operation.path for operation in operations.operations()}
    assert not [path for path in described if path.startswith("/sso")]
