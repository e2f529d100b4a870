"""Providers whose recorded responses are at their own URLs, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import requests
import responses
from responses import RequestsMock

from accounts.identities.external_identity import ProviderProfile
from oauthproviders import registry
from oauthproviders.base.contract import AuthorizationRequest, Provider
from tests.fakes.http_peer import Response
from tests.oauthproviders.providers.recordings import Recording

FLOW = UUID("6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11")


def publish(mocked_requests: RequestsMock, documents: Mapping[str, Response]) -> None:
    """Replace all mocked responses; `documents` are by URL without a query."""
    mocked_requests.reset()
    for url, response in documents.items():
        for method in ("GET", "POST"):
            mocked_requests.add(
                responses.Response(
                    method,
                    url,
                    body=response.body,
                    status=response.status,
                    headers=dict(response.headers),
                    content_type=None,
                )
            )


def request_to(mocked_requests: RequestsMock, url: str) -> requests.PreparedRequest:
    """The only request to a URL, which is without a query."""
    (request,) = [call.request for call in mocked_requests.calls if (call.request.url or "").partition("?")[0] == url]
    return request


def provider_of(recording: Recording, *, data: Mapping[str, str] | None = None) -> Provider:
    oauth1 = {"oauth_token": "a", "oauth_verifier": "v"} if recording.is_oauth1 else {}
    provider: Any = registry.PROVIDERS[recording.name].make(
        recording.config, data={**oauth1, **recording.data.get("callback", {}), **(data or {})}
    )
    return provider  # type: ignore[no-any-return]


def authorization_request(recording: Recording, *, scopes: str = "", **extra: str) -> AuthorizationRequest:
    return provider_of(recording).authorization_request(state=FLOW, scopes=scopes, extra=extra)


def profile_of(
    recording: Recording, mocked_requests: RequestsMock, *, data: Mapping[str, str] | None = None
) -> ProviderProfile:
    """Exchange a code and fetch the profile with the recorded responses."""
    publish(mocked_requests, recording.documents())
    provider = provider_of(recording, data=data)
    return provider.profile(provider.exchange(code="authcode", secret="b" if recording.is_oauth1 else ""))
