"""A provider to talk to: the recorded answers where the provider's own addresses are, without a network."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from accounts.identities.external_identity import ProviderProfile
from oauthproviders import registry
from oauthproviders.base.contract import AuthorizationRequest, Provider
from oauthproviders.oidc import openid_connect
from tests.fakes.http_peer import Answer
from tests.oauthproviders.providers.recordings import Recording

FLOW = UUID("6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11")


class Internet:
    """Every address there is, without its query, with what is answered there; `asked` holds the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[requests.PreparedRequest] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        self.asked.append(request)
        answer = self.answers.get((request.url or "").partition("?")[0], Answer(status=404))
        response = requests.Response()
        response.status_code = answer.status
        response.headers.update(answer.headers)
        response.raw = urllib3.HTTPResponse(
            body=io.BytesIO(answer.body), headers=dict(answer.headers), status=answer.status, preload_content=False
        )
        return response

    def request_to(self, address: str) -> requests.PreparedRequest:
        (request,) = [each for each in self.asked if (each.url or "").partition("?")[0] == address]
        return request


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    openid_connect.clear_caches()
    made = Internet()
    monkeypatch.setattr(HTTPAdapter, "send", made.send)
    return made


def provider_of(recording: Recording, *, data: Mapping[str, str] | None = None) -> Provider:
    brought = {"oauth_token": "a", "oauth_verifier": "v"} if recording.is_oauth1 else {}
    made: Any = registry.PROVIDERS[recording.name].make(
        recording.config, data={**brought, **recording.data.get("callback", {}), **(data or {})}
    )
    return made  # type: ignore[no-any-return]


def begin(recording: Recording, *, scopes: str = "", **extra: str) -> AuthorizationRequest:
    return provider_of(recording).authorization_request(flow_id=FLOW, scopes=scopes, extra=extra)


def profile_of(recording: Recording, internet: Internet, *, data: Mapping[str, str] | None = None) -> ProviderProfile:
    """Who signs in when the provider answers as recorded."""
    internet.answers = recording.answers()
    provider = provider_of(recording, data=data)
    return provider.profile(provider.exchange(code="authcode", secret="b" if recording.is_oauth1 else ""))
