"""Requests with ID tokens, and the issuers of the tokens."""

from __future__ import annotations

import hashlib
from typing import Any

from authsvc.conf import Provider
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.fakes.http_peer import FakeServer
from tests.fakes.issuer import Issuer, SigningKey

RSA = SigningKey()
BUILT_IN = ("apple", "google", "azure", "facebook", "keycloak", "kakao", "vercel_marketplace", "snapchat")
NONCE: dict[str, Any] = {"nonce": hashlib.sha256(b"n").hexdigest()}


def use_issuer(server: FakeServer, auth_config: ChangeConfig) -> Issuer:
    issuer = Issuer(server, path="/realms/main", key=RSA)
    providers = {name: Provider(enabled=True, client_ids=("cid", "second")) for name in BUILT_IN}
    providers["keycloak"] = Provider(enabled=True, client_ids=("cid", "second"), url=issuer.name)
    auth_config(providers=providers, federation={"ios_bundle_id": "com.example.app"})
    return issuer


def exchange(api: Api, id_token: str | None, *, bearer: str = "", **parameters: Any) -> ApiResponse:
    body = {"id_token": id_token, "provider": "keycloak", **parameters}
    return api.post(
        "/token?grant_type=id_token", {key: value for key, value in body.items() if value is not None}, bearer=bearer
    )


def parse_error(response: ApiResponse) -> tuple[int, Any, Any]:
    body = response.json()
    assert set(body) == {"error", "error_description"}
    return response.status_code, body["error"], body["error_description"]


def invalid(description: str) -> tuple[int, str, str]:
    return 400, "invalid request", description


ONE_SIDED = invalid("Passed nonce and nonce in id_token should either both exist or not.")
