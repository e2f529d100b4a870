"""AWS signatures compared with known values."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from catalogclient import BearerAuth, SigV4Auth
from catalogclient.auth import PreparedRequest
from catalogclient.auth._sigv4 import canonical_path, canonical_query
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

HOST = "https://s3tables.us-east-1.amazonaws.com/iceberg/v1"
BUCKET = "arn%3Aaws%3As3tables%3Aus-east-1%3A111122223333%3Abucket%2Fdemo"
KEYS = {"access_key": "AKIDEXAMPLE", "secret_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}


def signer(**more: Any) -> SigV4Auth:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return SigV4Auth("us-east-1", service="s3tables", clock=lambda: moment, **{**KEYS, **more})


def sign(request: PreparedRequest, auth: SigV4Auth) -> dict[str, str]:
    auth.apply(request)
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=(\w+)", request.headers["Authorization"]
    )
    assert match is not None
    return {"credential": match[1], "headers": match[2], "signature": match[3]}


def test_a_request_without_body() -> None:
    url = f"{HOST}/{BUCKET}/namespaces/a%1Fb/tables?pageSize=2&pageToken="
    request = PreparedRequest("GET", url, {"Accept": "application/json", "User-Agent": "x"}, None)
    assert sign(request, signer()) == {
        "credential": "AKIDEXAMPLE/20260102/us-east-1/s3tables/aws4_request",
        "headers": "host;x-amz-content-sha256;x-amz-date",
        "signature": "d0d4e67f01e901d9e7895f14f4d089353a7ba7a61038554481893d70ee77647f",
    }
    assert request.headers["X-Amz-Date"] == "20260102T030405Z"
    assert canonical_path(url, service="s3tables").endswith("bucket%252Fdemo/namespaces/a%251Fb/tables")
    assert canonical_path(url, service="s3").endswith("bucket%2Fdemo/namespaces/a%1Fb/tables")


def test_a_request_with_body_and_session_token() -> None:
    fields = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    request = PreparedRequest("POST", f"{HOST}/p/namespaces", fields, b'{"namespace":["a"]}')
    result = sign(request, signer(session_token="TOKEN"))
    assert result["headers"] == "content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
    assert result["signature"] == "fc68062bf18f4235cf0247fb2f7f6c07cb0da6f5b69e0863462a4e6229ff1f00"
    digest = "ac36792f9bb16f9a4e7ed38c3aedb315e88b71853b2a4328dbc779e2ff08d6e6"
    assert request.headers["X-Amz-Content-SHA256"] == digest


def test_parameters_are_signed_in_order() -> None:
    assert canonical_query("http://h/p?b=2&a=3&a=1&c") == "a=1&a=3&b=2&c="


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://h:80/", "h"), ("http://h:8080/", "h:8080"), ("https://H/", "h"), ("https://[::1]:444/", "[::1]:444")],
)
def test_the_signed_host_equals_the_sent_host(url: str, host: str) -> None:
    assert dict(signer()._signed_fields(PreparedRequest("GET", url, {}, None)))["host"] == host


def test_the_authorization_of_a_delegate_is_signed(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({}))
    connect(auth=signer(delegate=BearerAuth("t0k"))).list_namespaces()
    headers = peer.received[0].headers
    assert headers["Original-Authorization"] == "Bearer t0k"
    assert "original-authorization" in headers["Authorization"]


def test_keys_are_requested_for_every_attempt(peer: HttpPeer, connect: Connect) -> None:
    keys = iter([("AK1", "s", None), ("AK2", "s", "T"), ("AK3", "s", None)])
    peer.respond(Response(status=503), Response(status=401), in_json({}))
    connect(auth=SigV4Auth("eu", credentials=lambda: next(keys))).list_namespaces()
    used = [re.search(r"Credential=(\w+)/", request.headers["Authorization"]) for request in peer.received]
    assert [match and match[1] for match in used] == ["AK1", "AK2", "AK3"]
    assert peer.received[1].headers["X-Amz-Security-Token"] == "T"
    peer.respond(Response(status=401))
    with pytest.raises(Exception, match="401"):
        connect(auth=signer()).list_namespaces()
    assert len(peer.received) == 4
