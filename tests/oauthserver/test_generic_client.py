"""The whole flow with Authlib, a client library that knows the issuer only: discovery, code, ID token, userinfo."""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests
import responses
from authlib.integrations.django_client import OAuth  # type: ignore[import-untyped]  # it ships no types
from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]  # the same
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.test import Client, RequestFactory

from tests.conftest import Api, ChangeConfig
from tests.factories import make_session, make_user
from tests.oauthserver.client_application import CALLBACK, ISSUER, decide, query_of, register, show
from tokens.jwt import signing_keys

pytestmark = pytest.mark.django_db


def _forward(request: requests.PreparedRequest) -> tuple[int, dict[str, str], bytes]:
    """Answers a request to the issuer in this process."""
    headers: Any = {name: value for name, value in request.headers.items() if name != "Content-Type"}
    response: Any = Client().generic(
        str(request.method),
        request.path_url,
        request.body or b"",
        content_type=request.headers.get("Content-Type", ""),
        headers=headers,
    )
    return response.status_code, dict(response.headers), response.content


@pytest.fixture(autouse=True)
def _network(mocked_requests: responses.RequestsMock) -> None:
    for method in ("GET", "POST"):
        mocked_requests.add_callback(method, re.compile(re.escape(ISSUER)), callback=_forward)


def _request(path: str, session: SessionStore) -> Any:
    request: Any = RequestFactory().get(path)
    request.session = session
    return request


@pytest.mark.parametrize(
    ("algorithm", "method"), [("RS256", "client_secret_basic"), ("ES256", "client_secret_post"), ("ES256", "none")]
)
def test_generic_client_signs_a_user_in(
    algorithm: str, method: str, api: Api, auth_config: ChangeConfig, mocked_requests: responses.RequestsMock
) -> None:
    auth_config(jwt={"keys": (signing_keys.generate(algorithm=algorithm),), "valid_methods": (algorithm, "HS256")})
    user = make_user(data={"name": "Ada"})
    application = register(api, token_endpoint_auth_method=method)
    library = OAuth()
    library.register(
        name="authsvc",
        client_id=application.client_id,
        client_secret=application.secret or None,
        server_metadata_url=f"{ISSUER}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "token_endpoint_auth_method": method,
        },
    )
    store = SessionStore()

    location = library.authsvc.authorize_redirect(_request("/login", store), CALLBACK)["Location"]
    assert location.startswith(f"{ISSUER}/oauth/authorize?")
    consent_page = api.get(location.removeprefix(ISSUER)).headers["Location"]
    authorization_id, session = query_of(consent_page)["authorization_id"], make_session(user)
    show(api, authorization_id, session)
    redirect = decide(api, authorization_id, session).json()["redirect_url"]
    callback = redirect.removeprefix("https://client.example.com")
    tokens = library.authsvc.authorize_access_token(_request(callback, store))

    # The library has verified signature, issuer, audience and nonce of the ID token.
    assert (tokens["userinfo"]["sub"], tokens["userinfo"]["email"]) == (str(user.id), user.email)
    assert library.authsvc.userinfo(token=tokens) == {
        "sub": str(user.id),
        "email": user.email,
        "email_verified": True,
        "name": "Ada",
        "updated_at": tokens["userinfo"]["updated_at"],
        "user_metadata": tokens_metadata(api, tokens),
    }

    client = OAuth2Session(application.client_id, application.secret or None, token_endpoint_auth_method=method)
    refreshed = client.refresh_token(f"{ISSUER}/oauth/token", refresh_token=tokens["refresh_token"])
    assert refreshed["scope"] == "openid email profile"
    assert refreshed["refresh_token"] != tokens["refresh_token"]


def tokens_metadata(api: Api, tokens: dict[str, Any]) -> Any:
    return api.get("/user", bearer=tokens["access_token"]).json()["user_metadata"]
