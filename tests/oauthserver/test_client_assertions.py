"""Client authentication by `private_key_jwt` (RFC 7523), and the keys of clients."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from datetime import timedelta
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from django.utils import timezone
from jwt.algorithms import get_default_algorithms

from authsvc.jobs import cleanup
from authsvc.security.crypto import base64url_encode
from oauthserver.clients import client_keys as own_keys
from oauthserver.models import ClientAssertion, OAuthClient
from tests.accounts.administration import admin_requests
from tests.conftest import Api, ApiResponse
from tests.factories import VERIFIER, make_session
from tests.fakes.http_peer import HttpPeer, in_json
from tests.oauthserver import client_application
from tests.oauthserver.client_application import CALLBACK, ISSUER, Application
from tests.oauthserver.client_keys import JWKS, PRIVATE, assertion, post, public
from tests.observations import assert_error, audit_payloads
from tokens.jwt import signing_keys

UNKNOWN = "11111111-1111-4111-8111-111111111111"
METHOD = "private_key_jwt"
AUTHENTICATED = (400, {"error": "invalid_request", "error_description": "grant_type is required"})

pytestmark = pytest.mark.django_db


def register(api: Api, **metadata: Any) -> Application:
    keys = {} if "jwks_uri" in metadata else {"jwks": JWKS}
    return client_application.register(api, token_endpoint_auth_method=METHOD, **keys, **metadata)


def found(response: ApiResponse) -> tuple[int, Any]:
    return response.status_code, response.json()


def assert_refused(response: ApiResponse, reason: str) -> None:
    message = f"Invalid client assertion: {reason}"
    further = {"error": "invalid_client", "error_description": message}
    assert_error(response, 400, "invalid_credentials", message, **further)


@pytest.mark.parametrize("alg", PRIVATE)
def test_an_assertion_authenticates_once(alg: str, api: Api) -> None:
    client_id = register(api).client_id
    token = assertion(client_id, alg=alg)
    assert found(post(token)) == AUTHENTICATED
    assert_refused(post(token), "it was used before")
    assert found(post(assertion(client_id, alg=alg), client_id=client_id)) == AUTHENTICATED


@pytest.mark.parametrize(
    "audience",
    [ISSUER, f"{ISSUER}/oauth/token", f"{ISSUER}/oauth/par", [ISSUER], [ISSUER, f"{ISSUER}/oauth/token"]],
    ids=str,
)
def test_audiences(audience: Any, api: Api) -> None:
    assert found(post(assertion(register(api).client_id, aud=audience))) == AUTHENTICATED


def test_refused_claims(api: Api) -> None:
    client_id, other = register(api).client_id, register(api).client_id
    now = int(time.time())
    refused: list[tuple[dict[str, Any], str]] = [
        ({"iss": other}, "iss and sub must be the client_id"),
        ({"iss": other, "sub": other}, "iss and sub must be the client_id"),
        ({"aud": "https://other.example"}, "aud must be the issuer or the token endpoint"),
        ({"aud": [ISSUER, "https://other.example"]}, "aud must be the issuer or the token endpoint"),
        ({"aud": []}, "aud must be the issuer or the token endpoint"),
        ({"aud": f"{ISSUER}/"}, "aud must be the issuer or the token endpoint"),
        ({"exp": now}, "it has expired"),
        ({"exp": -1e300}, "it has expired"),
        ({"iat": now - 301, "exp": now + 3600}, "it has expired"),
        ({"iat": None, "exp": now + 400}, "exp must be at most 300 seconds ahead"),
        ({"iat": None, "exp": 1e300}, "exp must be at most 300 seconds ahead"),
        ({"iat": now + 90, "exp": now + 120}, "it is not valid yet"),
        ({"nbf": now + 90}, "it is not valid yet"),
        ({"jti": ""}, "jti must have 1 to 256 characters"),
        ({"jti": "x" * 257}, "jti must have 1 to 256 characters"),
        *(({name: None}, "iss, sub, aud, exp and jti are required") for name in ("iss", "aud", "exp", "jti")),
        ({"exp": "tomorrow"}, "iss, sub, aud, exp and jti are required"),
        ({"aud": {"a": 1}}, "iss, sub, aud, exp and jti are required"),
        ({"jti": "x" * 9000}, "it is too long"),
    ]
    for changes, reason in refused:
        key = get_default_algorithms()["ES256"].from_jwk(PRIVATE["ES256"])
        claims = {"iss": client_id, "sub": client_id, "aud": ISSUER, "exp": now + 60, "iat": now, "jti": "j", **changes}
        token = jwt.PyJWS().encode(
            orjson.dumps({name: value for name, value in claims.items() if value is not None}), key, algorithm="ES256"
        )
        assert_refused(post(token, client_id=client_id), reason)
    assert not ClientAssertion.objects.exists()
    # NUL in a jti is a text like others, of which a digest is stored.
    assert found(post(assertion(client_id, jti="\0"))) == AUTHENTICATED
    assert found(post(assertion(client_id, iat=None, nbf=now))) == AUTHENTICATED
    assert found(post(assertion(client_id, iat=now, exp=now + 3600))) == AUTHENTICATED


def test_refused_signatures(api: Api) -> None:
    client_id = register(api).client_id
    public_pem = (
        jwt.PyJWK(public(PRIVATE["RS256"]), algorithm="RS256")
        .key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )
    foreign = signing_keys.generate(algorithm="ES256")
    foreign_key = get_default_algorithms()["ES256"].from_jwk(foreign)
    good = assertion(client_id)
    unsigned = assertion(client_id, alg="none", key="")
    hs256 = jwt.PyJWS(options={"enforce_minimum_key_length": False})
    claims = orjson.dumps(jwt.decode(good, options={"verify_signature": False}))
    by_public_key = forge_hs256(claims, public_pem)
    by_secret = hs256.encode(claims, b"x" * 32, algorithm="HS256")
    for token, reason in (
        (unsigned, "the client does not use its algorithm"),
        (by_public_key, "the client does not use its algorithm"),
        (by_secret, "the client does not use its algorithm"),
        (assertion(client_id, key=foreign_key), "no key of the client has signed it"),
        (assertion(client_id, headers={"jwk": public(foreign)}, key=foreign_key), "no key of the client has signed it"),
        (assertion(client_id, headers={"kid": "RS256"}), "no key of the client has signed it"),
        (assertion(client_id, headers={"crit": ["x"], "x": 1}), "it is no signed token"),
        (good[:-4] + "AAAA", "no key of the client has signed it"),
        ("a.b.c", "it cannot be read"),
        (".", "it cannot be read"),
        ("é", "it cannot be read"),
        ("\0", "it cannot be read"),
        ("x" * 100_000, "it cannot be read"),
    ):
        assert_refused(post(token), reason)
    for token in ("a.b.c", "\0", "x" * 5000):
        assert_refused(post(token, client_id=client_id), "it is no signed token")
    assert_refused(post(good, client_id=register(api).client_id), "iss and sub must be the client_id")
    assert found(post(good)) == AUTHENTICATED


def forge_hs256(payload: bytes, public_pem: str) -> str:
    """A token whose HMAC key is the published key of the client, which PyJWT refuses to make."""
    signed = f"{base64url_encode(orjson.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{base64url_encode(payload)}"
    return f"{signed}.{base64url_encode(hmac.digest(public_pem.encode(), signed.encode(), hashlib.sha256))}"


def test_the_registered_algorithm_is_the_only_one(api: Api) -> None:
    client_id = register(api, token_endpoint_auth_signing_alg="EdDSA").client_id
    assert_refused(post(assertion(client_id)), "the client does not use its algorithm")
    assert found(post(assertion(client_id, alg="EdDSA"))) == AUTHENTICATED


def test_methods_are_not_mixed(api: Api) -> None:
    client = register(api)
    with_secret = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    wrong = "invalid authentication method: client is registered for"
    two = "Invalid client credentials: more than one authentication method"
    for response, message in (
        (post(assertion(client.client_id), client_secret="x"), two),
        (post(assertion(client.client_id), headers=with_secret.basic), two),
        (
            post(assertion(client.client_id), client_assertion_type="other"),
            "Invalid client credentials: unsupported client_assertion_type",
        ),
        (
            client_application.request_token(Application(client.client_id)),
            f"{wrong} 'private_key_jwt' but 'none' was used",
        ),
        (
            client_application.request_token(Application(client.client_id, "x", "client_secret_post")),
            f"{wrong} 'private_key_jwt' but 'client_secret_post' was used",
        ),
        (
            post(assertion(with_secret.client_id)),
            f"{wrong} 'client_secret_basic' but 'private_key_jwt' was used",
        ),
        (post(assertion(UNKNOWN)), "Invalid client credentials"),
        (post(assertion("x")), "Invalid client_id format"),
    ):
        further = {"error": "invalid_client", "error_description": message}
        assert_error(response, 400, "invalid_credentials", message, **further)


def test_a_flow_with_assertions(api: Api) -> None:
    """Exchange, refresh, introspection and revocation."""
    client = register(api)

    def call(path: str = "/oauth/token", **form: Any) -> Any:
        return post(assertion(client.client_id), path=path, **form)

    code = client_application.approve(api, client, make_session())
    form = {"code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    tokens = call(grant_type="authorization_code", **form).json()
    tokens = call(grant_type="refresh_token", refresh_token=tokens["refresh_token"]).json()
    assert call("/oauth/introspect", token=tokens["access_token"]).json()["active"] is True
    assert call("/oauth/revoke", token=tokens["access_token"]).status_code == 200
    assert call("/oauth/introspect", token=tokens["access_token"]).json() == {"active": False}


def test_used_assertions_are_deleted_after_their_end(api: Api) -> None:
    post(assertion(register(api).client_id))
    (rule,) = [rule for rule in cleanup.rules if rule.table == "oauth_client_assertions"]
    assert rule.run(at=timezone.now()) == 0
    assert rule.run(at=timezone.now() + timedelta(seconds=90)) == 0
    assert rule.run(at=timezone.now() + timedelta(minutes=3)) == 1


SMALL = {"kty": "RSA", "e": "AQAB", "n": "x" * 100}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "token_endpoint_auth_method 'private_key_jwt' requires jwks or jwks_uri"),
        ({"jwks": {}}, "token_endpoint_auth_method 'private_key_jwt' requires jwks or jwks_uri"),
        ({"jwks": JWKS, "jwks_uri": "https://a.example/keys"}, "jwks and jwks_uri must not both be present"),
        ({"jwks": {"keys": 1}}, "jwks must be a JSON Web Key Set"),
        ({"jwks": {"keys": [1]}}, "jwks must be a JSON Web Key Set"),
        ({"jwks": {"keys": []}}, "jwks must have 1 to 10 keys"),
        ({"jwks": {"keys": [JWKS["keys"][0] | {"kid": 2**70}]}}, "jwks must be a JSON Web Key Set"),
        ({"jwks": {"keys": JWKS["keys"] * 4}}, "jwks must have 1 to 10 keys"),
        ({"jwks": {"keys": [PRIVATE["ES256"]]}}, "jwks must not contain private or symmetric keys"),
        ({"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}, "jwks must not contain private or symmetric keys"),
        ({"jwks": {"keys": [SMALL]}}, "jwks must contain a public RSA, EC or Ed25519 key for signatures"),
        (
            {"jwks": {"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}},
            "jwks must contain a public RSA, EC or Ed25519 key for signatures",
        ),
        ({"jwks": {"keys": [{**JWKS["keys"][0], "kid": "x" * 20_000}]}}, "jwks cannot exceed 16384 bytes"),
        ({"jwks_uri": "http://a.example/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://127.0.0.1/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://[::1]/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://10.0.0.1/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://169.254.169.254/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://localhost/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://u:p@a.example/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://a.example/k eys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://[/keys"}, "jwks_uri must be an https URL of a public host"),
        ({"jwks_uri": "https://a.example/" + "x" * 2048}, "jwks_uri cannot exceed 2048 characters"),
        (
            {"jwks": JWKS, "token_endpoint_auth_signing_alg": "HS256"},
            (
                "token_endpoint_auth_signing_alg must be one of:"
                " [ES256 ES384 ES512 EdDSA PS256 PS384 PS512 RS256 RS384 RS512]"
            ),
        ),
        (
            {"jwks": JWKS, "client_type": "public"},
            (
                "client_type 'public' is inconsistent with token_endpoint_auth_method 'private_key_jwt'"
                " (expected client_type 'confidential')"
            ),
        ),
    ],
)
def test_refused_metadata(metadata: dict[str, Any], message: str, api: Api) -> None:
    body = json.dumps({"redirect_uris": [CALLBACK], "token_endpoint_auth_method": METHOD, **metadata})
    assert_error(admin_requests.ask(api, "POST", "/admin/oauth/clients", body), 400, "validation_failed", message)
    further = {"error": "invalid_client_metadata", "error_description": message}
    assert_error(api.post("/oauth/clients/register", body), 400, "validation_failed", message, **further)
    assert not OAuthClient.objects.exists()


def test_registration(api: Api) -> None:
    key = {**JWKS["keys"][0], "x5c": ["ignored"], "unknown": 1}
    body = {"redirect_uris": [CALLBACK], "token_endpoint_auth_method": METHOD, "jwks": {"keys": [key], "other": 1}}
    for client in (
        api.post("/oauth/clients/register", {**body, "token_endpoint_auth_signing_alg": "ES256"}).json(),
        admin_requests.ask(api, "POST", "/admin/oauth/clients", body).json(),
    ):
        assert client["client_type"] == "confidential"
        assert not {"client_secret", "client_secret_expires_at", "jwks_uri"} & client.keys()
        assert client["jwks"] == {"keys": [JWKS["keys"][0]]}
        assert found(post(assertion(client["client_id"]))) == AUTHENTICATED


def test_changes_of_a_client(api: Api) -> None:
    client = client_application.register(api, token_endpoint_auth_method="client_secret_basic")
    path = f"/admin/oauth/clients/{client.client_id}"

    def change(**changes: Any) -> ApiResponse:
        return admin_requests.ask(api, "PUT", path, changes)

    assert_error(
        change(token_endpoint_auth_method=METHOD),
        400,
        "validation_failed",
        "token_endpoint_auth_method 'private_key_jwt' requires jwks or jwks_uri",
    )
    changed = change(token_endpoint_auth_method=METHOD, jwks=JWKS).json()
    assert (changed["token_endpoint_auth_method"], changed["jwks"]) == (METHOD, JWKS)
    assert OAuthClient.objects.get().client_secret_hash == ""
    assert "jwks" in audit_payloads()[-1]["traits"]["changes"]
    assert found(post(assertion(client.client_id))) == AUTHENTICATED
    assert client_application.request_token(client).json()["error"] == "invalid_client"
    refused = admin_requests.ask(api, "POST", f"{path}/regenerate_secret")
    assert_error(refused, 400, "validation_failed", "Cannot regenerate secret for a client that uses private_key_jwt")
    assert change(jwks={}).json()["msg"] == "token_endpoint_auth_method 'private_key_jwt' requires jwks or jwks_uri"
    moved = change(jwks_uri="https://a.example/keys").json()
    assert (moved["jwks_uri"], "jwks" in moved) == ("https://a.example/keys", False)
    assert "jwks_uri" not in change(jwks=JWKS).json()
    back = change(token_endpoint_auth_method="client_secret_post", jwks={}).json()
    assert "jwks" not in back
    secret = admin_requests.ask(api, "POST", f"{path}/regenerate_secret").json()["client_secret"]
    renewed = Application(client.client_id, secret, "client_secret_post")
    assert found(client_application.request_token(renewed)) == AUTHENTICATED


def with_keys_at(api: Api, peer: HttpPeer) -> str:
    client_id = register(api, jwks_uri="https://client.example.com/keys").client_id
    OAuthClient.objects.filter(id=client_id).update(jwks_uri=f"{peer.url}/keys")
    return client_id


def test_keys_are_fetched_once_and_again_when_a_key_is_new(api: Api, keys_peer: HttpPeer) -> None:
    keys_peer.respond(in_json({"keys": [public(PRIVATE["ES256"])]}), in_json(JWKS), path="/keys")
    client_id = with_keys_at(api, keys_peer)
    assert found(post(assertion(client_id))) == AUTHENTICATED
    assert found(post(assertion(client_id))) == AUTHENTICATED
    assert len(keys_peer.received) == 1
    assert found(post(assertion(client_id, alg="EdDSA"))) == AUTHENTICATED
    assert_refused(
        post(assertion(client_id, alg="EdDSA", headers={"kid": "other"})), "no key of the client has signed it"
    )
    assert len(keys_peer.received) == 2


@pytest.mark.parametrize(
    "response",
    [
        in_json({"keys": 1}),
        in_json([]),
        in_json({"keys": [], "padding": "x" * 70_000}),
        in_json({"keys": []}, status=500),
    ],
    ids=["no key set", "a list", "too long", "an error"],
)
def test_keys_that_cannot_be_fetched(response: Any, api: Api, keys_peer: HttpPeer) -> None:
    keys_peer.respond(response, path="/keys")
    client_id = with_keys_at(api, keys_peer)
    assert_refused(post(assertion(client_id)), "the keys of the client are not available")
    assert_refused(post(assertion(client_id)), "the keys of the client are not available")
    assert len(keys_peer.received) == 1


def test_private_addresses_are_not_called(api: Api, peer: HttpPeer) -> None:
    own_keys.key_sets.clear()
    client_id = with_keys_at(api, peer)
    assert_refused(post(assertion(client_id)), "the keys of the client are not available")
    assert not peer.received


def test_discovery(api: Api) -> None:
    document = api.get("/.well-known/openid-configuration").json()
    assert METHOD in document["token_endpoint_auth_methods_supported"]
    algorithms = document["token_endpoint_auth_signing_alg_values_supported"]
    assert "ES256" in algorithms
    assert not {"none", "HS256"} & set(algorithms)
