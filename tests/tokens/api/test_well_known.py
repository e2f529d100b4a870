"""JWKS and discovery document: published keys, verification of tokens with them, and key rotation."""

from __future__ import annotations

import functools
from typing import Any

import jwt
import pytest

from authsvc.security import crypto
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tokens.jwt import signing_keys

CACHE_CONTROL = "public, max-age=600"
SECRET = "test-secret-of-at-least-32-characters"


@functools.cache
def generate_key(algorithm: str) -> dict[str, Any]:
    return {**signing_keys.generate(algorithm=algorithm), "kid": algorithm.lower()}


def verification_key(algorithm: str) -> dict[str, Any]:
    return generate_key(algorithm) | {"key_ops": ["verify"]}


SHARED_KEY = {
    "kty": "oct",
    "alg": "HS256",
    "kid": "shared",
    "key_ops": ["verify"],
    "k": crypto.base64url_encode(b"a key of thirty-two or more bytes"),
}


def sign_in(api: Api) -> str:
    user = factories.make_user()
    body = api.post("/token?grant_type=password", {"email": user.email, "password": PASSWORD}).json()
    return str(body["access_token"])


def fetch_jwks(api: Api) -> dict[str, jwt.PyJWK]:
    return {str(key.key_id): key for key in jwt.PyJWKSet.from_dict(api.get("/.well-known/jwks.json").json()).keys}


@pytest.mark.parametrize("path", ["/.well-known/jwks.json", "/.well-known/jwks.json/"])
def test_shared_secret_is_not_published(path: str, api: Api) -> None:
    response = api.get(path)
    assert (response.status_code, response.json()) == (200, {"keys": []})
    assert response.headers["Cache-Control"] == CACHE_CONTROL


def test_public_parts_of_asymmetric_keys_are_published(api: Api, auth_config: ChangeConfig) -> None:
    keys = (SHARED_KEY, verification_key("RS256"), generate_key("ES256"), verification_key("EdDSA"))
    auth_config(jwt={"keys": keys})

    response = api.get("/.well-known/jwks.json")

    published = {key["kid"]: key for key in response.json()["keys"]}
    assert set(published) == {"rs256", "es256", "eddsa"}
    for jwk in published.values():
        assert (jwk["use"], jwk["key_ops"]) == ("sig", ["verify"])
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(jwk)
    assert response.headers["Cache-Control"] == CACHE_CONTROL


def test_discovery_document_has_url_of_key_set(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"issuer": "https://auth.example.com/", "keys": (generate_key("ES256"),)})
    response = api.get("/.well-known/openid-configuration")
    body = response.json()
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == CACHE_CONTROL
    assert body["issuer"] == "https://auth.example.com/"
    assert body["jwks_uri"] == "https://auth.example.com/.well-known/jwks.json"
    assert body["id_token_signing_alg_values_supported"] == ["ES256"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("issuer", "named", "jwks_uri"),
    [
        ("", "https://auth.example.com/api/", "https://auth.example.com/api/.well-known/jwks.json"),
        ("authsvc", "authsvc", "https://auth.example.com/api/.well-known/jwks.json"),
        ("https://id.example.com", "https://id.example.com", "https://id.example.com/.well-known/jwks.json"),
    ],
)
def test_the_issuer_is_never_empty_and_equals_that_of_tokens(
    issuer: str, named: str, jwks_uri: str, api: Api, auth_config: ChangeConfig
) -> None:
    auth_config(jwt={"issuer": issuer}, api={"external_url": "https://auth.example.com/api/"})
    body = api.get("/.well-known/openid-configuration").json()
    assert (body["issuer"], body["jwks_uri"]) == (named, jwks_uri)
    claims = jwt.decode(sign_in(api), options={"verify_signature": False})
    assert claims.get("iss") == (issuer or None)
    assert set(body["claims_supported"]) == set(claims)


def test_discovery_names_no_endpoint_that_does_not_exist(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"issuer": "https://auth.example.com"})
    body = api.get("/.well-known/openid-configuration").json()
    (url,) = [value for value in body.values() if str(value).startswith("https://auth.example.com/")]
    assert api.get(url.removeprefix("https://auth.example.com")).status_code == 200
    assert body["response_types_supported"] == []


@pytest.mark.parametrize("path", ["/.well-known/jwks.json", "/.well-known/openid-configuration"])
def test_post_gets_405(path: str, api: Api) -> None:
    assert api.post(path).status_code == 405


@pytest.mark.django_db
def test_tokens_are_signed_with_secret_without_keys(api: Api) -> None:
    token = sign_in(api)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert jwt.decode(token, SECRET, algorithms=["HS256"], audience="authenticated")["aal"] == "aal1"


@pytest.mark.django_db
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA", "RS512", "ES512"])
def test_token_verifies_with_published_key(algorithm: str, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (generate_key(algorithm),)})
    token = sign_in(api)
    header = jwt.get_unverified_header(token)
    assert header == {"alg": algorithm, "typ": "JWT", "kid": algorithm.lower()}
    jwt.decode(token, fetch_jwks(api)[header["kid"]].key, algorithms=[algorithm], audience="authenticated")
    assert api.get("/user", bearer=token).status_code == 200


@pytest.mark.django_db
def test_rsa_key_without_alg_signs_rs256(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": ({name: value for name, value in generate_key("RS256").items() if name != "alg"},)})
    assert jwt.get_unverified_header(sign_in(api))["alg"] == "RS256"


@pytest.mark.django_db
def test_tokens_of_all_configured_keys_are_accepted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": (SHARED_KEY, verification_key("RS256"), generate_key("ES256"), verification_key("EdDSA"))})
    token = sign_in(api)
    assert jwt.get_unverified_header(token)["kid"] == "es256"
    claims = jwt.decode(token, options={"verify_signature": False})
    older_token = jwt.encode(claims, b"a key of thirty-two or more bytes", headers={"kid": "shared"})
    assert api.get("/user", bearer=older_token).status_code == 200


@pytest.mark.django_db
def test_key_rotation_fails_no_request(api: Api, auth_config: ChangeConfig) -> None:
    old, new = generate_key("RS256"), generate_key("ES256")
    auth_config(jwt={"keys": (old,)})
    signed_in = factories.make_session()
    cached = fetch_jwks(api)

    auth_config(jwt={"keys": (old, verification_key("ES256"))})
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    cached |= fetch_jwks(api)

    auth_config(jwt={"keys": (verification_key("RS256"), new)})
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    # A client that cached the keys of the previous step can verify new tokens.
    body = api.post("/token?grant_type=refresh_token", {"refresh_token": signed_in.refresh_token}).json()
    header = jwt.get_unverified_header(body["access_token"])
    assert header["kid"] == "es256"
    jwt.decode(body["access_token"], cached[header["kid"]].key, algorithms=["ES256"], audience="authenticated")

    auth_config(jwt={"keys": (new,)})
    assert api.get("/user", bearer=body["access_token"]).status_code == 200
    rejected = api.get("/user", bearer=signed_in.access_token)
    assert (rejected.status_code, rejected.json()["error_code"]) == (403, "bad_jwt")
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": body["refresh_token"]})
    assert response.status_code == 200
