"""Which keys sign, which check, what is published, and which key sets are refused."""

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


CLAIMS = (
    "sub aud iss exp iat auth_time nonce email email_verified phone_number phone_number_verified name picture "
    "preferred_username updated_at"
).split()
SECRET = "a secret of at least thirty-two characters"


@functools.cache
def generated(algorithm: str, kid: str) -> dict[str, Any]:
    return signing_keys.generate(algorithm=algorithm) | {"kid": kid}


def signing(algorithm: str, kid: str = "", **members: Any) -> dict[str, Any]:
    return generated(algorithm, kid) | members


def verifying(algorithm: str, kid: str = "", **members: Any) -> dict[str, Any]:
    return generated(algorithm, kid) | {"key_ops": ["verify"]} | members


def without(jwk: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in jwk.items() if name not in names}


def kid_of(key: signing_keys.Key | None) -> str | None:
    return None if key is None else key.kid


@pytest.fixture
def configured(auth_config: ChangeConfig) -> Configure:
    def configure(*jwks: dict[str, Any], **fields: Any) -> signing_keys.KeySet:
        auth_config(jwt={"secret": Secret(SECRET), "keys": jwks, **fields})
        return signing_keys.current()

    return configure


def test_without_a_key_set_the_secret_signs_and_nothing_is_published(configured: Configure) -> None:
    keyset = configured()
    assert (keyset.signing.alg, keyset.signing.kid) == ("HS256", "")
    assert keyset.valid_methods == {"HS256"}
    assert keyset.jwks() == {"keys": []}
    token = keyset.signing.encode({"sub": "x"})
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT"}
    assert jwt.decode(token, SECRET, algorithms=["HS256"]) == {"sub": "x"}


def test_the_secret_has_the_key_id_of_its_setting(configured: Configure) -> None:
    keyset = configured(key_id="main")
    assert jwt.get_unverified_header(keyset.signing.encode({}))["kid"] == "main"
    assert keyset.find("HS256", "main") is keyset.signing


def test_a_mixed_set_signs_with_its_signing_key_and_checks_with_all(configured: Configure) -> None:
    keyset = configured(
        verifying("HS256", "old"), verifying("RS256", "rsa"), signing("ES256", "ec"), verifying("EdDSA", "ed")
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
def test_every_algorithm_signs_what_an_independent_library_verifies(configured: Configure, algorithm: str) -> None:
    keyset = configured(signing(algorithm, "k"))
    token = keyset.signing.encode({"sub": "x"})
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "k", "typ": "JWT"}
    public = keyset.jwks()["keys"][0] if algorithm != "HS256" else signing(algorithm, "k")
    assert jwt.decode(token, jwt.PyJWK(public), algorithms=[algorithm]) == {"sub": "x"}


@pytest.mark.parametrize("algorithm", signing_keys.ALGORITHMS)
def test_a_key_accepts_its_own_signature_and_no_other(configured: Configure, algorithm: str) -> None:
    key = configured(signing(algorithm, "k")).signing
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
def test_a_key_that_names_no_algorithm_gets_the_usual_one_of_its_kind(
    configured: Configure, algorithm: str, expected: str | None
) -> None:
    keyset = configured(without(signing(algorithm, "k"), "alg"))
    assert keyset.signing.alg == expected
    assert [key["alg"] for key in keyset.jwks()["keys"]] == ([] if expected == "HS256" else [expected])


def test_further_members_of_a_key_are_published(configured: Configure) -> None:
    keyset = configured(signing("ES256", "k", x5t="thumbprint", use="enc", ext=True))
    [key] = keyset.jwks()["keys"]
    assert (key["x5t"], key["ext"], key["use"]) == ("thumbprint", True, "sig")


def test_a_public_key_may_verify(configured: Configure) -> None:
    public = without(verifying("ES256", "old"), "d")
    keyset = configured(public, signing("ES256", "new"))
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
def test_a_token_is_checked_with_the_key_it_names_or_the_secret(
    configured: Configure, alg: str, kid: str | None, expected: str | None
) -> None:
    keyset = configured(signing("RS256", "rsa"), verifying("HS256", "shared"), key_id="main")
    assert kid_of(keyset.find(alg, kid)) == expected


def test_tokens_of_a_key_without_id_find_it_and_the_secret_still_works(configured: Configure) -> None:
    keyset = configured(without(signing("RS256"), "kid"))
    assert keyset.find("RS256", None) is keyset.signing
    assert kid_of(keyset.find("HS256", None)) == ""
    assert "kid" not in keyset.jwks()["keys"][0]


def test_accepted_algorithms_can_be_narrowed(configured: Configure) -> None:
    keyset = configured(verifying("HS256", "old"), signing("ES256", "k"), valid_methods=("ES256",))
    assert keyset.valid_methods == {"ES256"}


def test_of_two_keys_with_one_id_the_later_counts(configured: Configure) -> None:
    keyset = configured(verifying("ES256", "twin"), verifying("RS256", "twin"), signing("ES256", "k"))
    assert keyset.find("RS256", "twin") is not None
    assert keyset.find("ES256", "twin") is None


@pytest.mark.parametrize(
    ("jwks", "message"),
    [
        pytest.param([verifying("ES256", "a")], "no signing key detected", id="none signs"),
        pytest.param([signing("ES256", "a"), signing("RS256", "b")], "multiple signing keys detected", id="two sign"),
        pytest.param([without(signing("ES256", "a"), "d")], "no private part", id="public key is to sign"),
        pytest.param([signing("RS256", "a", alg="ES256")], "not supported", id="algorithm of another kind"),
        pytest.param([signing("ES256", "a", alg="ES512")], "not supported", id="algorithm of another curve"),
        pytest.param([signing("ES256", "a", crv="P-384")], "not supported", id="unknown curve"),
        pytest.param([signing("HS256", "a", alg="HS512")], "not supported", id="unknown algorithm"),
        pytest.param([signing("HS256", "a", alg="none")], "not supported", id="algorithm none"),
        pytest.param([signing("ES256", "a", kty="PGP")], "not supported", id="unknown type"),
        pytest.param([{**signing("ES256", "a"), "kid": 7}], "not supported", id="id is no text"),
        pytest.param([signing("RS256", "a", **{"aws:kms:arn": "arn:x"})], "not supported", id="key kept elsewhere"),
        pytest.param([without(signing("RS256", "a"), "n")], "not a valid JSON Web Key", id="member missing"),
        pytest.param([signing("ES256", "a", x="AA")], "not a valid JSON Web Key", id="coordinate too short"),
        pytest.param([signing("ES256", "a", x=1)], "not a valid JSON Web Key", id="coordinate is no text"),
        pytest.param([signing("HS256", "a", k="")], "not a valid JSON Web Key", id="empty shared secret"),
    ],
)
def test_a_key_set_that_cannot_work_is_refused_without_showing_it(
    configured: Configure, jwks: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=message) as caught:
        configured(*jwks)
    secrets = [jwk[name] for jwk in jwks for name in ("d", "k") if jwk.get(name)]
    assert not any(secret in str(caught.value) for secret in secrets)


def test_keys_are_parsed_once_per_configuration(configured: Configure) -> None:
    first = configured(signing("ES256", "k"))
    assert signing_keys.current() is first
    second = configured(signing("ES256", "k"))
    assert second is not first
    assert signing_keys.current() is second


def test_a_key_does_not_show_its_secret(configured: Configure) -> None:
    keyset = configured()
    assert SECRET not in repr(keyset)
    assert SECRET not in repr(keyset.signing)


@pytest.mark.parametrize("issuer", ["https://auth.example.com", "https://auth.example.com//"])
def test_the_discovery_document_is_built_on_the_issuer(configured: Configure, issuer: str) -> None:
    configured(signing("ES256", "k"), issuer=issuer)
    document = signing_keys.discovery()
    assert document["issuer"] == issuer
    assert document["authorization_endpoint"] == "https://auth.example.com/oauth/authorize"
    assert document["token_endpoint"] == "https://auth.example.com/oauth/token"
    assert document["userinfo_endpoint"] == "https://auth.example.com/oauth/userinfo"
    assert document["jwks_uri"] == "https://auth.example.com/.well-known/jwks.json"
    assert "registration_endpoint" not in document
    assert document["id_token_signing_alg_values_supported"] == ["ES256"]
    assert document["scopes_supported"] == ["openid", "profile", "email", "phone", "offline_access"]
    assert document["claims_supported"] == CLAIMS


def test_no_id_token_is_promised_when_nobody_could_check_it(configured: Configure) -> None:
    configured(issuer="https://auth.example.com")
    document = signing_keys.discovery()
    assert document["scopes_supported"] == ["profile", "email", "phone", "offline_access"]
    assert document["id_token_signing_alg_values_supported"] == ["HS256"]


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], "RS256"), *((["--algorithm", a], a) for a in signing_keys.ALGORITHMS)]
)
def test_the_command_prints_a_key_set_that_can_be_used(
    configured: Configure, arguments: list[str], expected: str | None
) -> None:
    printed = io.StringIO()
    call_command(generate_keys.Command(), *arguments, stdout=printed)
    jwks = json.loads(printed.getvalue())
    keyset = configured(*jwks)
    assert keyset.signing.alg == expected
    assert keyset.signing.kid == jwks[0]["kid"] != ""


def test_the_command_makes_another_key_each_time() -> None:
    assert signing_keys.generate(algorithm="ES256")["kid"] != signing_keys.generate(algorithm="ES256")["kid"]


def test_the_command_knows_no_other_algorithm() -> None:
    with pytest.raises(CommandError, match="HS512"):
        call_command(generate_keys.Command(), "--algorithm", "HS512")
