"""OpenID Connect: discovery, key sets and the verification of ID tokens."""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.oidc import openid_connect
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, MockedServer, Response, in_json, redirect
from tests.fakes.issuer import Issuer, SigningKey, at_hash, unpadded

RSA = SigningKey()


@pytest.fixture
def issuer(server: MockedServer) -> Issuer:
    return Issuer(server, key=RSA)


@pytest.fixture
def issuer_peer(peer: HttpPeer) -> Issuer:
    """The same on loopback."""
    return Issuer(peer, key=RSA)


def verify(token: str, issuer: Issuer | openid_connect.Issuer, **options: Any) -> dict[str, Any]:
    location = issuer.name if isinstance(issuer, Issuer) else issuer
    return openid_connect.verify(token, issuer=location, **{"audiences": ["cid"], **options})


def get_error(token: str, issuer: Issuer | openid_connect.Issuer, **options: Any) -> str:
    with pytest.raises(InvalidProviderResponse) as caught:
        verify(token, issuer, **options)
    return str(caught.value)


# Discovery


def test_discovery_returns_the_endpoints(issuer: Issuer) -> None:
    document = openid_connect.discover(issuer.name)
    endpoints = (
        document.authorization_endpoint, document.token_endpoint, document.userinfo_endpoint, document.jwks_uri,
    )  # fmt: skip
    assert endpoints == tuple(f"{issuer.name}/{path}" for path in ("authorize", "token", "userinfo", "keys"))
    assert (document.response_types_supported, document.scopes_supported) == (("code",), None)


@pytest.mark.parametrize("path", ["", "/realm", "/realm/"])
def test_the_document_is_below_the_path_of_the_issuer(path: str, server: MockedServer) -> None:
    name = f"{server.url}{path}"
    server.respond(in_json({"issuer": name}), path=f"{path.rstrip('/')}/.well-known/openid-configuration")
    assert openid_connect.discover(name).issuer == name


def test_the_document_may_have_another_url(server: MockedServer) -> None:
    server.respond(in_json({"issuer": "https://id.example.com"}), path="/metadata")
    location = openid_connect.Issuer(name="https://id.example.com", url=f"{server.url}/metadata")
    assert openid_connect.discover(location).issuer == "https://id.example.com"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response(status=500), "status 500"),
        (Response(status=404), "status 404"),
        (redirect("https://id.example.com"), "status 302"),
        (Response(body=b"<html>"), "the document is not of the form that was expected"),
        (in_json([]), "the document is not of the form that was expected"),
        (in_json({"issuer": 7}), "the document is not of the form that was expected"),
        (in_json({"issuer": "https://id.example.com", "scopes_supported": "all"}), "the document is not of the form"),
        (Response(body=b"[" * 50_000 + b"]" * 50_000), "the document is not of the form that was expected"),
        (Response(body=b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"), "the response is nested too deeply"),
        (in_json({}), "the document is about no issuer"),
        (in_json({"issuer": "https://id.example.com"}), "the document is about another issuer"),
        (Response(body=b"x" * 2_000_000), "the response is too long"),
    ],
)
def test_an_invalid_document_is_an_error(response: Response, reason: str, server: MockedServer) -> None:
    server.respond(response)
    with pytest.raises(ProviderUnavailable) as caught:
        openid_connect.discover(server.url)
    assert str(caught.value).startswith(
        f'OIDC discovery from "{server.url}/.well-known/openid-configuration" failed: {reason}'
    )


def test_a_closed_connection_is_an_error(issuer_peer: Issuer) -> None:
    issuer_peer.server.respond(Response(close=True, raw=b""), path=issuer_peer.discovery_path)
    with pytest.raises(ProviderUnavailable, match=r"failed: RemoteDisconnected$"):
        openid_connect.discover(issuer_peer.name)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "ftp://id.example.com/a", "/authorize", "https://", "https://[", "data:,x"]
)
@pytest.mark.parametrize("member", ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"])
def test_an_invalid_endpoint_is_an_error(address: str, member: str, issuer: Issuer) -> None:
    issuer.publish_discovery(**{member: address})
    with pytest.raises(ProviderUnavailable, match="an address in the document is not an https one"):
        openid_connect.discover(issuer.name)


@pytest.mark.parametrize(
    ("issuer", "name"),
    [
        ("https://appleid.apple.com", "https://account.apple.com"),
        ("https://account.apple.com", "https://appleid.apple.com"),
    ],
)
def test_both_issuers_of_apple_are_equal(issuer: str, name: str, server: MockedServer) -> None:
    server.respond(in_json({"issuer": issuer}), path="/metadata")
    location = openid_connect.Issuer(name=name, url=f"{server.url}/metadata")
    assert openid_connect.discover(location).issuer == issuer


def test_an_issuer_that_hangs_is_an_error(issuer_peer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.2)})
    issuer_peer.server.respond(Response(hang=True), path=issuer_peer.discovery_path)
    with pytest.raises(ProviderUnavailable, match="timed out"):
        openid_connect.discover(issuer_peer.name)


def test_a_public_only_issuer_at_a_private_address_is_not_called(issuer_peer: Issuer) -> None:
    with pytest.raises(ProviderUnavailable, match="the host has no public address"):
        openid_connect.discover(openid_connect.Issuer(name=issuer_peer.name, public_only=True))
    assert issuer_peer.server.received == []


# Caches


def test_documents_are_fetched_once(issuer: Issuer) -> None:
    for _ in range(3):
        verify(issuer.token(), issuer)
    assert (issuer.request_count(issuer.discovery_path), issuer.request_count(issuer.keys_path)) == (1, 1)


def test_documents_of_another_version_are_not_used(issuer: Issuer) -> None:
    for version in ("1", "1", "2"):
        verify(issuer.token(), openid_connect.Issuer(name=issuer.name, version=version))
    assert (issuer.request_count(issuer.discovery_path), issuer.request_count(issuer.keys_path)) == (2, 2)


# ID tokens


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
def test_every_public_key_algorithm_is_supported(algorithm: str, server: MockedServer) -> None:
    issuer = Issuer(server, key=SigningKey(algorithm))
    bits = 512 if algorithm == "EdDSA" else int(algorithm[-3:])
    token = issuer.token(at_hash=at_hash("t", bits=bits))
    claims = verify(token, issuer, access_token="t")
    assert (claims["iss"], claims["sub"], claims["email"]) == (issuer.name, "7", "ada@example.com")
    assert "another access token" in get_error(token, issuer, access_token="u")


def test_the_default_algorithm_is_rs256(issuer: Issuer) -> None:
    issuer.publish_discovery(id_token_signing_alg_values_supported=None)
    issuer.publish_keys(RSA, ec := SigningKey("ES256"))
    assert verify(issuer.token(), issuer)
    assert "an algorithm that its issuer does not use" in get_error(issuer.token(key=ec), issuer)


def unsigned(token: str, **header: Any) -> str:
    return f"{unpadded(json.dumps(header).encode())}.{token.split('.')[1]}."


def signed_with_public_key(token: str) -> str:
    signed = unsigned(token, alg="HS256", kid=RSA.kid)[:-1]
    published = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return f"{signed}.{unpadded(hmac.digest(published, signed.encode(), 'sha256'))}"


@pytest.mark.parametrize("listed", [["RS256"], ["none", "HS256", "RS256"], ["none", "HS256"]])
@pytest.mark.parametrize(
    "forge",
    [
        lambda token: unsigned(token, alg="none"),
        lambda token: unsigned(token, alg="none", kid=RSA.kid),
        lambda token: unsigned(token, kid=RSA.kid),
        lambda token: unsigned(token, alg=["RS256"]),
        lambda token: unsigned(token, alg={"RS256": 1}),
        lambda token: unsigned(token, alg=None),
        signed_with_public_key,
    ],
)
def test_a_token_without_an_asymmetric_signature_is_an_error(forge: Any, listed: list[str], issuer: Issuer) -> None:
    issuer.publish_discovery(id_token_signing_alg_values_supported=listed)
    assert get_error(forge(issuer.token()), issuer)


def test_the_signature_must_be_of_a_key_of_the_issuer(issuer: Issuer) -> None:
    other_key = SigningKey()
    assert "no key of the issuer" in get_error(issuer.token(key=other_key), issuer)
    other_key.kid = RSA.kid
    assert "no key of the issuer" in get_error(issuer.token(key=other_key), issuer)
    head, body, signature = issuer.token().split(".")
    assert "no key of the issuer" in get_error(f"{head}.{body}.{signature[:-4]}AAAA", issuer)
    other_body = issuer.token(sub="8").split(".")[1]
    assert "no key of the issuer" in get_error(f"{head}.{other_body}.{signature}", issuer)


@pytest.mark.parametrize("token", ["", ".", "..", "abc", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "e30.e30.", "\0.a.b"])
def test_a_malformed_token_is_an_error(token: str, issuer: Issuer) -> None:
    assert get_error(token, issuer)


def test_a_critical_extension_is_an_error(issuer: Issuer) -> None:
    token = RSA.sign({"iss": issuer.name, "sub": "7", "exp": time.time() + 60}, crit=["exp"], exp=1)
    assert "no signed token" in get_error(token, issuer)


@pytest.mark.parametrize("typ", ["at+jwt", "application/at+jwt", "Logout+JWT"])
def test_a_token_of_another_type_is_an_error(typ: str, issuer: Issuer) -> None:
    claims = changed_claims(issuer, {})
    assert "no ID token" in get_error(RSA.sign(claims, typ=typ), issuer)
    assert verify(RSA.sign(claims, typ="JWT"), issuer)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"typ": "Bearer"}, "no ID token"),
        ({"iss": "https://id.example.com"}, "another issuer"),
        ({"iss": None}, "not of the form"),
        ({"iss": 7}, "not of the form"),
        ({"exp": None}, "not of the form"),
        ({"exp": "later"}, "not of the form"),
        ({"exp": True}, "not of the form"),
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"nbf": int(time.time()) + 86400}, "not valid yet"),
        ({"nbf": "now"}, "not of the form"),
        ({"iat": "now"}, "not of the form"),
        ({"sub": 7}, "not of the form"),
        ({"sub": "a\0b"}, "U+0000"),
        ({"aud": 7}, "not of the form"),
        ({"aud": ["cid", 7]}, "not of the form"),
        ({"aud": None}, "another audience"),
        ({"aud": "other"}, "another audience"),
        ({"aud": "CID"}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"nonce": 7}, "not of the form"),
        ({"at_hash": 7}, "not of the form"),
        ({"at_hash": ""}, "another access token"),
    ],
)
def test_invalid_claims_are_an_error(changes: dict[str, Any], reason: str, issuer: Issuer) -> None:
    assert reason in get_error(RSA.sign(changed_claims(issuer, changes)), issuer, access_token="t")


def changed_claims(issuer: Issuer, changes: dict[str, Any]) -> dict[str, Any]:
    claims = json.loads(base64.urlsafe_b64decode(f"{issuer.token().split('.')[1]}=="))
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "claims", [b"[]", b"7", b"null", b"{", b'{"iss":"x","exp":NaN}', b'{"iss":"\\ud800","exp":1}', b"\xff"]
)
def test_a_payload_that_is_not_a_claims_object_is_an_error(claims: bytes, issuer: Issuer) -> None:
    assert "not of the form" in get_error(RSA.sign(claims), issuer)


@pytest.mark.parametrize(
    "changes",
    [
        {"nbf": int(time.time()) + 240},
        {"iat": int(time.time()) + 900},
        {"iat": 1},
        {"exp": time.time() + 86400.5},
        {"aud": ["other", "cid"]},
        {"sub": None},
    ],
)
def test_valid_variants_of_claims(changes: dict[str, Any], issuer: Issuer) -> None:
    assert verify(issuer.token(**changes), issuer)["iss"] == issuer.name


def test_the_audience_check_can_be_left_to_the_caller(issuer: Issuer) -> None:
    assert verify(issuer.token(aud=["a", "b"]), issuer, audiences=None)["aud"] == ["a", "b"]


def test_at_hash_is_checked_only_with_an_access_token(issuer: Issuer) -> None:
    assert verify(issuer.token(at_hash=at_hash("t")), issuer)
    assert verify(issuer.token(), issuer, access_token="t")


def test_the_alternative_issuer_of_google_is_accepted(server: MockedServer) -> None:
    issuer = Issuer(server, key=RSA)
    issuer.publish_discovery(issuer="https://accounts.google.com")
    google = openid_connect.Issuer(name="https://accounts.google.com", url=f"{server.url}{issuer.discovery_path}")
    for spelling in ("https://accounts.google.com", "accounts.google.com"):
        assert verify(issuer.token(iss=spelling), google)["iss"] == spelling
    assert "another issuer" in get_error(issuer.token(iss="http://accounts.google.com"), google)


# Keys


def test_an_unknown_key_id_renews_the_key_set(issuer: Issuer) -> None:
    verify(issuer.token(), issuer)
    issuer.publish_keys(RSA, new := SigningKey("RS256"))
    assert verify(issuer.token(key=new), issuer)
    assert verify(issuer.token(), issuer)
    assert issuer.request_count(issuer.keys_path) == 2


def test_unknown_key_ids_renew_the_key_set_once_per_interval(issuer: Issuer) -> None:
    verify(issuer.token(), issuer)
    for number in range(20):
        assert get_error(RSA.sign({"iss": issuer.name, "exp": time.time() + 60}, kid=f"k{number}"), issuer)
    assert issuer.request_count(issuer.keys_path) == 2


def test_keys_without_an_id_are_tried_in_order(server: MockedServer) -> None:
    issuer = Issuer(server, key=SigningKey(kid=""))
    issuer.publish_keys(SigningKey("ES256"), SigningKey(), issuer.key)
    assert verify(issuer.token(), issuer)


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": None},
        {"n": "AQAB"},
        {"n": 7},
        {"e": "!"},
        {"e": None},
        {"kid": "another"},
    ],
)
def test_a_key_of_another_kind_is_not_used(changes: dict[str, Any], issuer: Issuer) -> None:
    key = {name: value for name, value in {**RSA.jwk, **changes}.items() if value is not None}
    issuer.server.respond(in_json({"keys": [key]}), path=issuer.keys_path)
    assert "no key of the issuer" in get_error(issuer.token(), issuer)


def test_a_key_without_use_and_algorithm_is_used(issuer: Issuer) -> None:
    key = {name: value for name, value in RSA.jwk.items() if name not in ("use", "alg")}
    issuer.server.respond(in_json({"keys": [{"kty": "XYZ"}, key]}), path=issuer.keys_path)
    assert verify(issuer.token(), issuer)


def test_a_short_key_is_not_used(issuer: Issuer) -> None:
    short = SigningKey(bits=1024)
    issuer.publish_keys(short)
    assert "no key of the issuer" in get_error(issuer.token(key=short), issuer)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (Response(status=500), "status 500"),
        (Response(body=b"<html>"), "not of the form"),
        (in_json({"keys": {}}), "not of the form"),
        (in_json({"keys": ["a"]}), "not of the form"),
        (in_json({"keys": []}), "no key of the issuer"),
        (Response(body=b'{"keys":[' + b"{}," * 500_000 + b"{}]}"), "too long"),
    ],
)
def test_an_invalid_key_set_is_an_error(response: Response, reason: str, issuer: Issuer) -> None:
    issuer.server.respond(response, path=issuer.keys_path)
    assert reason in get_error(issuer.token(), issuer)


def test_an_issuer_without_a_key_set_is_an_error(issuer: Issuer) -> None:
    issuer.publish_discovery(jwks_uri=None)
    assert "publishes no keys" in get_error(issuer.token(), issuer)


# The claimed issuer


def test_the_claimed_issuer_is_read_from_the_token(issuer: Issuer) -> None:
    assert openid_connect.claimed_issuer(issuer.token()) == issuer.name


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "a.e30.c", "a.W10.c", "a.bnVsbA.c", "a.eyJpc3MiOjd9.c", "é.é.é"])
def test_a_token_without_an_issuer_is_an_error(token: str) -> None:
    with pytest.raises(InvalidProviderResponse):
        openid_connect.claimed_issuer(token)


# Deadlines


def test_no_request_is_sent_after_the_deadline(issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(microseconds=1)})
    with deadline.shared(), pytest.raises(ProviderUnavailable, match="failed: timed out"):
        openid_connect.discover(issuer.name)
    assert issuer.server.received == []
