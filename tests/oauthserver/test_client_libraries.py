"""The whole flow with client libraries that know the issuer only: discovery, code, ID token, userinfo, refresh.

`tests/live/clients/test_openid_clients.py` runs libraries that need a process of their own."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import jwt
import pytest
import requests
import responses
from authlib.integrations.django_client import OAuth  # type: ignore[import-untyped]  # it ships no types
from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]  # the same
from authlib.oauth2.rfc7523 import PrivateKeyJWT  # type: ignore[import-untyped]  # the same
from cryptography.hazmat.primitives import serialization
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.test import Client, RequestFactory
from social_core.backends.open_id_connect import OpenIdConnectAuth
from social_core.storage import AssociationMixin, BaseStorage, NonceMixin
from social_core.strategy import BaseStrategy

from tests.conftest import Api, ChangeConfig
from tests.factories import VERIFIER, make_session, make_user
from tests.oauthserver import client_keys
from tests.oauthserver.client_application import CALLBACK, ISSUER, approve, decide, query_of, register, show
from tokens.jwt import signing_keys

pytestmark = pytest.mark.django_db


def _forward(request: requests.PreparedRequest) -> tuple[int, dict[str, str], bytes]:
    """Answer a request to the issuer in this process."""
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


def test_authlib_authenticates_by_private_key_jwt(api: Api) -> None:
    application = register(api, token_endpoint_auth_method="private_key_jwt", jwks=client_keys.JWKS)
    key = jwt.PyJWK(client_keys.PRIVATE["RS256"], algorithm="RS256").key
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    endpoint = f"{ISSUER}/oauth/token"
    client = OAuth2Session(application.client_id, pem, token_endpoint_auth_method="private_key_jwt")
    client.register_client_auth_method(PrivateKeyJWT(endpoint, headers={"kid": "RS256"}))
    session = make_session()
    form = {"code": approve(api, application, session), "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    tokens = client.fetch_token(endpoint, grant_type="authorization_code", **form)
    assert client.get(f"{ISSUER}/oauth/userinfo").json()["sub"] == str(session.user.id)
    refreshed = client.refresh_token(endpoint, refresh_token=tokens["refresh_token"])
    assert refreshed["refresh_token"] != tokens["refresh_token"]


class SocialAuthSite(BaseStrategy[Any]):
    """A web site with social-auth-core: its settings, the session of one browser, and the stored nonces."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(storage=SocialAuthStorage)
        self._settings = settings
        self._session: dict[str, Any] = {}
        self.callback: dict[str, str] = {}

    def get_setting(self, name: str) -> Any:
        return self._settings[name]

    def get_request_data(self, merge: bool = True) -> dict[str, Any]:
        return dict(self.callback)

    def build_absolute_uri(self, path: str | None = None) -> str:
        return path or ""

    def session_get(self, name: str, default: Any = None) -> Any:
        return self._session.get(name, default)

    def session_set(self, name: str, value: Any) -> None:
        self._session[name] = value

    def session_pop(self, name: str) -> Any:
        return self._session.pop(name, None)

    def authenticate(self, *args: Any, **kwargs: Any) -> Any:
        return kwargs["response"]


class SocialAuthStates(NonceMixin):
    """Values of `state` in memory."""

    stored: ClassVar[set[tuple[str, int, str]]] = set()

    @classmethod
    def use(cls, server_url: str, timestamp: int, salt: str) -> bool:
        cls.stored.add((server_url, timestamp, salt))
        return True

    @classmethod
    def consume(cls, server_url: str, timestamp: int, salt: str) -> bool:
        cls.stored.remove((server_url, timestamp, salt))
        return True


class SocialAuthNonces(AssociationMixin):
    """Nonces in memory."""

    stored: ClassVar[dict[str, SocialAuthNonces]] = {}
    id = 1

    @classmethod
    def store(cls, server_url: str, association: Any) -> None:
        row = cls.stored[association.handle] = cls()
        row.issued, row.lifetime, row.assoc_type = association.issued, association.lifetime, association.assoc_type

    @classmethod
    def get(cls, server_url: str | None = None, handle: str | None = None) -> list[Any]:
        return [found] if (found := cls.stored.get(handle or "")) else []

    @classmethod
    def remove(cls, ids_to_delete: list[Any]) -> None:
        cls.stored.clear()


class SocialAuthStorage(BaseStorage):
    association = SocialAuthNonces
    nonce = SocialAuthStates


def test_social_auth_core_signs_a_user_in(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (signing_keys.generate(algorithm="RS256"),), "valid_methods": ("RS256", "HS256")})
    user = make_user(data={"name": "Ada"})
    # The library refreshes with the secret in the body, whatever the method of the exchange.
    application = register(api, token_endpoint_auth_method="client_secret_post")
    settings = {
        "KEY": application.client_id,
        "SECRET": application.secret,
        "OIDC_ENDPOINT": ISSUER,
        "TOKEN_ENDPOINT_AUTH_METHOD": "client_secret_post",
        "USE_PKCE": True,
    }
    site = SocialAuthSite(settings)
    library: Any = OpenIdConnectAuth(site, redirect_uri=CALLBACK)

    authorization_id = query_of(api.get(library.auth_url().removeprefix(ISSUER)).headers["Location"])[
        "authorization_id"
    ]
    session = make_session(user)
    show(api, authorization_id, session)
    redirect = decide(api, authorization_id, session).json()["redirect_url"]
    site.callback = query_of(redirect)
    completed: Any = OpenIdConnectAuth(site, redirect_uri=CALLBACK)
    response = completed.auth_complete()

    assert (response["sub"], response["email"], response["name"]) == (str(user.id), user.email, "Ada")
    assert completed.id_token["aud"] == application.client_id
    refreshed = completed.refresh_token(response["refresh_token"])
    assert refreshed["refresh_token"] != response["refresh_token"]


def tokens_metadata(api: Api, tokens: dict[str, Any]) -> Any:
    return api.get("/user", bearer=tokens["access_token"]).json()["user_metadata"]
