"""The provider as the suite expects it: an RS256 key, and a relying party that is registered as the plan says."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest
from pytest_django import Settings

from authsvc import conf
from authsvc.conf import Jwt
from tests.conftest import Api
from tests.factories import make_session, make_user
from tests.oauthserver.client_application import CALLBACK, Application, register
from tests.oauthserver.openid_plan.relying_party import RelyingParty
from tokens.jwt import signing_keys


@cache
def signing_key() -> dict[str, Any]:
    return signing_keys.generate(algorithm="RS256")


@cache
def _jwt_section() -> Jwt:
    """One object for all tests, because the service parses the keys of each object, which takes 40 ms for RSA."""
    return dataclasses.replace(conf.current().jwt, keys=(signing_key(),), valid_methods=("RS256", "HS256"))


@pytest.fixture(autouse=True)
def _rs256(_enabled: None, settings: Settings) -> None:
    """The algorithm that every OpenID provider supports."""
    settings.AUTH = dataclasses.replace(settings.AUTH, jwt=_jwt_section())


@pytest.fixture
def party(api: Api) -> RelyingParty:
    """A relying party with static registration and `client_secret_basic`, and a user with every claim."""
    application = register(api, token_endpoint_auth_method="client_secret_basic")
    user = make_user(
        data={"name": "Ada", "picture": "https://img.example/a.png", "preferred_username": "ada"}, phone="15551234567"
    )
    return RelyingParty(api=api, application=application, browser=make_session(user))


def register_dynamically(api: Api, **metadata: Any) -> Application:
    """A client that registers itself, with the metadata that the suite sends."""
    body = {
        "client_name": "OpenID conformance",
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic",
        "contacts": ["certification@example.org"],
        **metadata,
    }
    response = api.post("/oauth/clients/register", body)
    assert response.status_code == 201, response.content
    client = response.json()
    assert client["redirect_uris"] == body["redirect_uris"]
    assert (client.get("client_secret_expires_at") == 0) == ("client_secret" in client)
    return Application(client["client_id"], client.get("client_secret", ""), client["token_endpoint_auth_method"])


@pytest.fixture
def dynamic_party(api: Api) -> RelyingParty:
    """A relying party that has registered itself."""
    return RelyingParty(api=api, application=register_dynamically(api))
