"""Signing keys: selection, publication as JWKS and metadata, invalid key sets, and the command `generate_keys`."""

from __future__ import annotations

import functools
import io
import json
from typing import Any, Protocol

import jwt
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from authsvc.conf import Secret
from authsvc.management.commands import generate_keys
from tests.conftest import ChangeConfig
from tokens.jwt import signing_keys


class Configure(Protocol):
    def __call__(self, *jwks: dict[str, Any], **fields: Any) -> signing_keys.KeySet: ...


CLAIMS = ("iss sub aud exp iat email phone app_metadata user_metadata role aal amr session_id is_anonymous").split()
SECRET = "a secret of at least thirty-two characters"


@functools.cache
def generate_key(algorithm: str, kid: str) -> dict[str, Any]:
    return signing_keys.generate(algorithm=algorithm) | {"kid": kid}


def signing_key(algorithm: str, kid: str = "", **members: Any) -> dict[str, Any]:
    return generate_key(algorithm, kid) | members


def verification_key(algorithm: str, kid: str = "", **members: Any) -> dict[str, Any]:
    return generate_key(algorithm, kid) | {"key_ops": ["verify"]} | members


def remove_members(jwk: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in jwk.items() if name not in names}


def kid_of(key: signing_keys.Key | None) -> str | None:
    return None if key is None else key.kid


@pytest.fixture
def configure_keys(auth_config: ChangeConfig) -> Configure:
    def configure(*jwks: dict[str, Any], **fields: Any) -> signing_keys.KeySet:
        auth_config(jwt={"secret": Secret(SECRET), "keys": jwks, **fields})
        return signing_keys.current()

    return configure


def test_secret_signs_and_no_key_is_published_without_configured_keys(configure_keys: Configure) -> None:
    keyset = configure_keys()
    assert (keyset.signing.alg, keyset.signing.kid) == ("HS256", "")
    assert keyset.valid_methods == {"HS256"}
    assert keyset.jwks() == {"keys": []}
    token = keyset.signing.encode({"sub": "x"})
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert jwt.decode(token, SECRET, algorithms=["HS256"]) == {"sub": "x"}


def test_secret_has_configured_key_id(configure_keys: Configure) -> None:
    keyset = configure_keys(key_id="main")
    assert jwt.get_unverified_header(keyset.signing.encode({}))["kid"] == "main"
    assert keyset.find("HS256", "main") is keyset.signing


def test_key_set_signs_with_signing_key_and_verifies_with_all_keys(configure_keys: Configure) -> None:
    keyset = configure_keys(
        verification_key("HS256", "old"),
        verification_key("RS256", "rsa"),
        signing_key("ES256", "ec"),
        verification_key("EdDSA", "ed"),
    )
    assert (keyset.signing.alg, keyset.signing.kid) == ("ES256", "ec")
    assert keyset.valid_methods == {"HS256", "RS256", "ES256", "EdDSA"}
    assert kid_of(keyset.find("HS256", "old")) == "old"
    published = {key["kid"]: key for key in keyset.jwks()["keys"]}
    assert set(published) == {"rsa", "ec", "ed"}
    for key in published.values():
        assert not {"d", "p", "q", "dp", "dq", "qi", "oth", "k"} & set(key)
        assert (key["use"], key["key_ops"]) == ("sig", ["verify"])
        assert list(key) == sorted(key)
    assert published["ec"]["crv"] == "P-256"
    assert published["ec"]["alg"] == "ES256"


@pytest.mark.parametrize("algorithm", signing_keys.ALGORITHMS)
def test_signature_is_verified_by_another_library(configure_keys: Configure, algorithm: str) -> None:
    keyset = configure_keys(signing_key(algorithm, "k"))
    token = keyset.signing.encode({"sub": "x"})
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "k", "typ": "JWT"}
    public = keyset.jwks()["keys"][0] if algorithm != "HS256" else signing_key(algorithm, "k")
    assert jwt.decode(token, jwt.PyJWK(public), algorithms=[algorithm]) == {"sub": "x"}


@pytest.mark.parametrize("algorithm", signing_keys.ALGORITHMS)
def test_key_rejects_changed_payload_and_signature(configure_keys: Configure, algorithm: str) -> None:
    key = configure_keys(signing_key(algorithm, "k")).signing
    signed, _, signature = key.encode({"sub": "x"}).rpartition(".")
    other, _, _ = key.encode({"sub": "y"}).rpartition(".")
    shorter = jwt.utils.base64url_encode(jwt.utils.base64url_decode(signature)[:-1]).decode()
    assert key.decode(f"{signed}.{signature}") == {"sub": "x"}
    for forged in (f"{other}.{signature}", f"{signed}.{shorter}", f"{signed}."):
        with pytest.raises(jwt.InvalidSignatureError):
            key.decode(forged)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("RS512", "RS256"), ("ES256", "ES256"), ("ES512", "ES512"), ("EdDSA", "EdDSA"), ("HS256", "HS256")],
)
def test_key_without_alg_gets_default_algorithm_of_its_type(
    configure_keys: Configure, algorithm: str, expected: str | None
) -> None:
    keyset = configure_keys(remove_members(signing_key(algorithm, "k"), "alg"))
    assert keyset.signing.alg == expected
    assert [key["alg"] for key in keyset.jwks()["keys"]] == ([] if expected == "HS256" else [expected])


def test_additional_key_members_are_published(configure_keys: Configure) -> None:
    keyset = configure_keys(signing_key("ES256", "k", x5t="thumbprint", use="enc", ext=True))
    [key] = keyset.jwks()["keys"]
    assert (key["x5t"], key["ext"], key["use"]) == ("thumbprint", True, "sig")


def test_public_key_is_verification_key(configure_keys: Configure) -> None:
    public = remove_members(verification_key("ES256", "old"), "d")
    keyset = configure_keys(public, signing_key("ES256", "new"))
    old = keyset.find("ES256", "old")
    assert old is not None
    assert not old.is_signing
    assert {key["kid"] for key in keyset.jwks()["keys"]} == {"old", "new"}


@pytest.mark.parametrize(
    ("alg", "kid", "expected"),
    [
        ("RS256", "rsa", "rsa"),
        ("HS256", "shared", "shared"),
        ("HS256", None, "main"),
        ("HS256", "", "main"),
        ("HS256", "unknown", "main"),
        ("HS256", "main", "main"),
        ("RS256", "main", None),
        ("RS256", "unknown", None),
        ("RS256", None, None),
        ("HS256", "rsa", None),
        ("RS512", "rsa", None),
        ("RS256", "shared", None),
        ("none", "rsa", None),
    ],
)
def test_verification_key_is_selected_by_kid_and_algorithm(
    configure_keys: Configure, alg: str, kid: str | None, expected: str | None
) -> None:
    keyset = configure_keys(signing_key("RS256", "rsa"), verification_key("HS256", "shared"), key_id="main")
    assert kid_of(keyset.find(alg, kid)) == expected


def test_key_without_kid_is_found_without_kid(configure_keys: Configure) -> None:
    keyset = configure_keys(remove_members(signing_key("RS256"), "kid"))
    assert keyset.find("RS256", None) is keyset.signing
    assert kid_of(keyset.find("HS256", None)) == ""
    assert "kid" not in keyset.jwks()["keys"][0]


def test_valid_methods_restrict_accepted_algorithms(configure_keys: Configure) -> None:
    keyset = configure_keys(verification_key("HS256", "old"), signing_key("ES256", "k"), valid_methods=("ES256",))
    assert keyset.valid_methods == {"ES256"}


def test_later_key_replaces_earlier_key_with_same_kid(configure_keys: Configure) -> None:
    keyset = configure_keys(
        verification_key("ES256", "twin"), verification_key("RS256", "twin"), signing_key("ES256", "k")
    )
    assert keyset.find("RS256", "twin") is not None
    assert keyset.find("ES256", "twin") is None


@pytest.mark.parametrize(
    ("jwks", "message"),
    [
        pytest.param([verification_key("ES256", "a")], "no signing key detected", id="no signing key"),
        pytest.param(
            [signing_key("ES256", "a"), signing_key("RS256", "b")],
            "multiple signing keys detected",
            id="two keys",
        ),
        pytest.param([remove_members(signing_key("ES256", "a"), "d")], "no private part", id="public key signs"),
        pytest.param([signing_key("RS256", "a", alg="ES256")], "not supported", id="algorithm of another type"),
        pytest.param([signing_key("ES256", "a", alg="ES512")], "not supported", id="algorithm of another curve"),
        pytest.param([signing_key("ES256", "a", crv="P-384")], "not supported", id="unknown curve"),
        pytest.param([signing_key("HS256", "a", alg="HS512")], "not supported", id="unknown algorithm"),
        pytest.param([signing_key("HS256", "a", alg="none")], "not supported", id="algorithm none"),
        pytest.param([signing_key("ES256", "a", kty="PGP")], "not supported", id="unknown type"),
        pytest.param([{**signing_key("ES256", "a"), "kid": 7}], "not supported", id="kid is not a string"),
        pytest.param([signing_key("RS256", "a", **{"aws:kms:arn": "arn:x"})], "not supported", id="key in AWS KMS"),
        pytest.param([remove_members(signing_key("RS256", "a"), "n")], "not a valid JSON Web Key", id="member missing"),
        pytest.param([signing_key("ES256", "a", x="AA")], "not a valid JSON Web Key", id="coordinate too short"),
        pytest.param([signing_key("ES256", "a", x=1)], "not a valid JSON Web Key", id="coordinate is not a string"),
        pytest.param([signing_key("HS256", "a", k="")], "not a valid JSON Web Key", id="empty shared secret"),
    ],
)
def test_invalid_key_set_is_rejected_without_showing_keys(
    configure_keys: Configure, jwks: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=message) as raised:
        configure_keys(*jwks)
    secrets = [jwk[name] for jwk in jwks for name in ("d", "k") if jwk.get(name)]
    assert not any(secret in str(raised.value) for secret in secrets)


def test_keys_are_parsed_once_per_configuration(configure_keys: Configure) -> None:
    first = configure_keys(signing_key("ES256", "k"))
    assert signing_keys.current() is first
    second = configure_keys(signing_key("ES256", "k"))
    assert second is not first
    assert signing_keys.current() is second


def test_repr_does_not_show_the_secret(configure_keys: Configure) -> None:
    keyset = configure_keys()
    assert SECRET not in repr(keyset)
    assert SECRET not in repr(keyset.signing)


@pytest.mark.parametrize("issuer", ["https://auth.example.com", "https://auth.example.com//"])
def test_discovery_document_is_based_on_issuer(configure_keys: Configure, issuer: str) -> None:
    configure_keys(signing_key("ES256", "k"), issuer=issuer)
    document = signing_keys.discovery()
    assert document["issuer"] == issuer
    assert document["jwks_uri"] == "https://auth.example.com/.well-known/jwks.json"
    assert not any(name.endswith("_endpoint") for name in document)
    assert "scopes_supported" not in document
    assert document["id_token_signing_alg_values_supported"] == ["ES256"]
    assert document["claims_supported"] == CLAIMS


def test_discovery_names_the_algorithm_of_a_shared_secret(configure_keys: Configure) -> None:
    configure_keys(issuer="https://auth.example.com")
    document = signing_keys.discovery()
    assert document["id_token_signing_alg_values_supported"] == ["HS256"]


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], "RS256"), *((["--algorithm", a], a) for a in signing_keys.ALGORITHMS)]
)
def test_generate_keys_prints_usable_key_set(
    configure_keys: Configure, arguments: list[str], expected: str | None
) -> None:
    output = io.StringIO()
    call_command(generate_keys.Command(), *arguments, stdout=output)
    jwks = json.loads(output.getvalue())
    keyset = configure_keys(*jwks)
    assert keyset.signing.alg == expected
    assert keyset.signing.kid == jwks[0]["kid"] != ""


@pytest.mark.parametrize("key_id", ["", "main"])
def test_a_first_key_replaces_the_secret_without_refusals(configure_keys: Configure, key_id: str) -> None:
    output = io.StringIO()
    alone = configure_keys(key_id=key_id)
    call_command(generate_keys.Command(), "--beside-secret", stdout=output)
    secret, new = json.loads(output.getvalue())
    beside = configure_keys(secret, new)
    switched = configure_keys(secret | {"key_ops": ["verify"]}, new | {"key_ops": ["sign", "verify"]})
    steps = (alone, beside, switched)
    assert [key["kid"] for key in beside.jwks()["keys"]] == [new["kid"]]
    assert [keyset.signing.alg for keyset in steps] == ["HS256", "HS256", "RS256"]
    # Servers of two successive steps run side by side.
    for issuer, verifier in (
        (alone, beside),
        (beside, alone),
        (beside, switched),
        (switched, beside),
        (alone, switched),
    ):
        token = issuer.signing.encode({"sub": "ada"})
        key = verifier.find(issuer.signing.alg, jwt.get_unverified_header(token).get("kid"))
        assert key is not None
        assert key.decode(token)["sub"] == "ada"


def test_generated_keys_differ() -> None:
    assert signing_keys.generate(algorithm="ES256")["kid"] != signing_keys.generate(algorithm="ES256")["kid"]


def test_generate_keys_rejects_unknown_algorithm() -> None:
    with pytest.raises(CommandError, match="HS512"):
        call_command(generate_keys.Command(), "--algorithm", "HS512")
