"""Keys and assertions of a client that authenticates by `private_key_jwt`."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import jwt
from jwt.algorithms import get_default_algorithms

from tests.conftest import ApiResponse
from tests.oauthserver.client_application import ISSUER, post_form
from tokens.jwt import signing_keys

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PRIVATE = {alg: signing_keys.generate(algorithm=alg) | {"kid": alg} for alg in ("ES256", "RS256", "EdDSA")}


def public(jwk: dict[str, Any]) -> dict[str, Any]:
    hidden = {"d", "p", "q", "dp", "dq", "qi", "key_ops"}
    return {name: value for name, value in jwk.items() if name not in hidden}


JWKS = {"keys": [public(jwk) for jwk in PRIVATE.values()]}


def sign(claims: dict[str, Any], *, alg: str = "ES256", key: Any = None, headers: dict[str, Any] | None = None) -> str:
    if key is None:
        key = get_default_algorithms()[alg].from_jwk(PRIVATE[alg])
    return jwt.encode(claims, key, algorithm=alg, headers={"kid": alg, **(headers or {})})


def assertion(client_id: str, *, alg: str = "ES256", key: Any = None, headers: Any = None, **changes: Any) -> str:
    """An assertion of the client; a claim that is None is left out."""
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": ISSUER,
        "iat": now,
        "exp": now + 60,
        "jti": str(uuid4()),
        **changes,
    }
    present = {name: value for name, value in claims.items() if value is not None}
    return sign(present, alg=alg, key=key, headers=headers)


def post(
    assertion: str, *, path: str = "/oauth/token", headers: dict[str, str] | None = None, **form: Any
) -> ApiResponse:
    """A request of a client that authenticates by an assertion; a parameter that is None is left out."""
    parameters = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion, **form}
    present = {name: value for name, value in parameters.items() if value is not None}
    return post_form(urlencode(present), path=path, headers=headers)
