"""Twitter by OAuth 1.0a: request tokens, signatures and callbacks."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from oauthlib.oauth1.rfc5849 import signature  # type: ignore[import-untyped]
from responses import RequestsMock

from authsvc import conf
from oauthproviders import registry
from oauthproviders.base.contract import InvalidProviderResponse
from tests.fakes.http_peer import Response
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import (
    FLOW,
    authorization_request,
    profile_of,
    provider_of,
    publish,
    request_to,
)
from tests.oauthproviders.providers.provider_documents import document_of
from tests.oauthproviders.providers.recordings import ALL, SECRET

REQUEST_TOKEN = "https://api.twitter.com/oauth/request_token"


def verify_signature(request: requests.PreparedRequest, token_secret: str) -> dict[str, str]:
    """Verify the signature of a request (RFC 5849 §3.4) and return its OAuth parameters."""
    sent: str | bytes = request.headers["Authorization"]
    header = sent.decode() if isinstance(sent, bytes) else sent
    pairs = signature.collect_parameters(headers={"Authorization": header}, exclude_oauth_signature=False)
    query = parse_qsl(urlsplit(request.url or "").query)
    base = signature.signature_base_string(
        request.method or "",
        signature.base_string_uri(request.url or ""),
        signature.normalize_parameters([*query, *(pair for pair in pairs if pair[0] != "oauth_signature")]),
    )
    key = f"{SECRET}&{token_secret}".encode()
    expected = base64.b64encode(hmac.new(key, base.encode(), hashlib.sha1).digest()).decode()
    parameters = dict(pairs)
    assert parameters["oauth_signature"] == expected
    assert (parameters["oauth_signature_method"], parameters["oauth_consumer_key"]) == ("HMAC-SHA1", "cid")
    return parameters


def test_the_authorization_request_fetches_a_twitter_request_token(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    publish(mocked_requests, recording.documents())
    authorization = authorization_request(recording, scopes="repo", login_hint="u")
    assert (authorization.url, authorization.secret) == (f"{recording.authorize}?oauth_token=a", "b")
    request = request_to(mocked_requests, REQUEST_TOKEN)
    assert request.method == "POST"
    assert verify_signature(request, "")["oauth_callback"] == f"{recordings.CALLBACK}?state={FLOW}"


def test_twitter_requests_are_signed_with_the_token_secret(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    profile_of(recording, mocked_requests)
    exchange = request_to(mocked_requests, recording.data["token"])
    parameters = verify_signature(exchange, "b")
    assert (exchange.method, parameters["oauth_token"], parameters["oauth_verifier"]) == ("POST", "a", "v")
    request = request_to(mocked_requests, document_of(recording))
    assert verify_signature(request, "c")["oauth_token"] == "t"
    assert dict(parse_qsl(urlsplit(request.url or "").query)) == {
        "include_email": "true",
        "include_entities": "false",
        "skip_status": "true",
    }


@pytest.mark.parametrize(
    "response",
    [
        Response(status=500),
        Response(body=b"oauth_token=a"),
        Response(body=b"oauth_token=&oauth_token_secret=b"),
        Response(body=b"oauth_token=a%00&oauth_token_secret=b"),
        Response(body=b"\xff\xfe"),
        Response(body=b"<!doctype html>"),
        Response(body=b""),
    ],
    ids=lambda response: repr(response.body),
)
def test_an_invalid_request_token_response_is_an_error(response: Response, mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, {REQUEST_TOKEN: response})
    with pytest.raises(InvalidProviderResponse):
        authorization_request(ALL["twitter"])


@pytest.mark.parametrize(
    ("data", "secret"),
    [({"oauth_verifier": ""}, "b"), ({"oauth_token": ""}, "b"), ({"oauth_verifier": "", "denied": "a"}, "b"), ({}, "")],
)
def test_an_incomplete_twitter_callback_is_an_error(
    data: Mapping[str, str], secret: str, mocked_requests: RequestsMock
) -> None:
    publish(mocked_requests, ALL["twitter"].documents())
    with pytest.raises(InvalidProviderResponse):
        provider_of(ALL["twitter"], data=data).exchange(code="", secret=secret)
    assert len(mocked_requests.calls) == 0


def test_the_twitter_redirect_uri_may_have_a_query(mocked_requests: RequestsMock) -> None:
    recording = ALL["twitter"]
    publish(mocked_requests, recording.documents())
    config = conf.Provider(client_ids=("cid",), secret=conf.Secret(SECRET), redirect_uri="https://a.example/c?d=e")
    provider: Any = registry.PROVIDERS["twitter"].make(config, data={})
    provider.authorization_request(state=FLOW, scopes="", extra={})
    callback = verify_signature(request_to(mocked_requests, REQUEST_TOKEN), "")["oauth_callback"]
    assert callback == f"https://a.example/c?d=e&state={FLOW}"
