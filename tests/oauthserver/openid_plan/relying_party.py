"""A relying party that verifies each response as the conformance suite does."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import Any

import jwt

from tests.conftest import Api, read_success
from tests.factories import SignIn, make_session
from tests.oauthserver import client_application
from tests.oauthserver.client_application import CALLBACK, Application, query_of

NONCE = "n-0S6_WzA2Mj"
STATE = "af0ifjsldkj"
_CLOCK_SKEW = 5
_SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A verified token response."""

    response: dict[str, Any] = field(repr=False)
    id_token: dict[str, Any]
    """The claims of the ID token."""

    @property
    def access_token(self) -> str:
        return str(self.response["access_token"])

    @property
    def refresh_token(self) -> str:
        return str(self.response["refresh_token"])


@dataclass(kw_only=True)
class RelyingParty:
    """A client with the browser of one user."""

    api: Api
    application: Application
    browser: SignIn = field(default_factory=make_session)
    """The session in which the user decides."""

    def discover(self) -> dict[str, Any]:
        content: dict[str, Any] = self.api.get("/.well-known/openid-configuration").json()
        return content

    def read_keys(self) -> dict[str, dict[str, Any]]:
        """The published keys by their `kid`."""
        keys = self.api.get("/.well-known/jwks.json").json()["keys"]
        by_id = {key["kid"]: key for key in keys}
        assert len(by_id) == len(keys)
        assert not any(_SECRET_MEMBERS & key.keys() for key in keys)
        return by_id

    def authorize(self, *, redirect_uri: str = CALLBACK, **parameters: Any) -> dict[str, str]:
        """The parameters of the authorization response; the user approves the request if asked."""
        given = {"scope": "openid", "state": STATE, "nonce": NONCE, **parameters}
        response = client_application.authorize(self.api, self.application, redirect_uri=redirect_uri, **given)
        assert response.status_code == 302, response.content
        location = response.headers["Location"]
        if (authorization_id := query_of(location).get("authorization_id")) is not None:
            shown = client_application.show(self.api, authorization_id, self.browser).json()
            if "redirect_url" not in shown:
                assert shown.get("required_action") is None, shown
                shown = client_application.decide(self.api, authorization_id, self.browser).json()
            location = shown["redirect_url"]
        answered = query_of(location)
        assert location.partition("?")[0] == redirect_uri.partition("?")[0]
        assert query_of(redirect_uri).items() <= answered.items()
        assert answered["iss"] == self.discover()["issuer"]
        assert answered.get("state") == given["state"]
        return answered

    def find_error(self, **parameters: Any) -> str:
        """The error of a request that is refused before the user sees it."""
        answered = self.authorize(**parameters)
        assert "code" not in answered
        return answered["error"]

    def sign_in(self, *, method: str = "GET", **parameters: Any) -> Tokens:
        """Tokens after authorization and exchange of the code, with every check of the happy flow."""
        code = self.authorize(method=method, **parameters)["code"]
        redirect_uri = parameters.get("redirect_uri", CALLBACK)
        return self.exchange(code, redirect_uri=redirect_uri, nonce=parameters.get("nonce", NONCE))

    def exchange(self, code: str, *, nonce: str | None = NONCE, **changes: Any) -> Tokens:
        response = client_application.exchange(self.application, code, **changes)
        assert response.status_code == 200, response.content
        assert "no-store" in response.headers["Cache-Control"]
        assert response.headers["Content-Type"].startswith("application/json")
        content = response.json()
        assert content["token_type"].lower() == "bearer"
        assert content["access_token"].isascii()
        assert isinstance(content["expires_in"], int)
        return Tokens(response=content, id_token=self.verify_id_token(content["id_token"], nonce=nonce))

    def verify_id_token(self, token: str, *, nonce: str | None = NONCE) -> dict[str, Any]:
        """The claims of an ID token (OpenID Connect Core §2, §3.1.3.7)."""
        metadata, header = self.discover(), jwt.get_unverified_header(token)
        key = self.read_keys()[header["kid"]]
        assert header["alg"] == key["alg"]
        assert header["alg"] in metadata["id_token_signing_alg_values_supported"]
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK(key),
            algorithms=[header["alg"]],
            audience=self.application.client_id,
            issuer=metadata["issuer"],
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
        now = time.time()
        assert now - 60 < claims["iat"] <= now + _CLOCK_SKEW
        assert 0 < len(claims["sub"]) <= 255
        assert claims["sub"].isascii()
        assert claims.get("nonce") == nonce
        assert claims.get("azp", self.application.client_id) == self.application.client_id
        assert isinstance(claims["auth_time"], int)
        return claims

    def read_userinfo(self, tokens: Tokens, *, method: str = "GET") -> dict[str, Any]:
        """The claims of the UserInfo endpoint, of the user whom the ID token names."""
        response = self.api.request(method, "/oauth/userinfo", bearer=tokens.access_token)
        assert response.status_code == 200, response.content
        assert response.headers["Content-Type"].startswith("application/json")
        claims: dict[str, Any] = response.json()
        assert claims["sub"] == tokens.id_token["sub"]
        return claims

    def refresh(self, tokens: Tokens) -> dict[str, Any]:
        return read_success(client_application.refresh(self.application, tokens.refresh_token))


def unsigned_jwt(claims: dict[str, Any]) -> str:
    """A JWT with `alg` none."""
    return jwt.encode(claims, key="", algorithm="none")


def flip_signature(token: str) -> str:
    """The token with another signature."""
    body, _, signature = token.rpartition(".")
    raw = bytearray(base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4)))
    raw[0] ^= 1
    return f"{body}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"
