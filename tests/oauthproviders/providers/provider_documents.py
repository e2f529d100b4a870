"""Contents of requests to providers and of their profiles."""

from __future__ import annotations

from urllib.parse import parse_qsl

import requests
from responses import RequestsMock

from tests.oauthproviders.providers.conftest import profile_of
from tests.oauthproviders.providers.recordings import Recording

ADA = "ada@example.com"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
MICROSOFT = "https://login.microsoftonline.com"


def form_of(request: requests.PreparedRequest) -> dict[str, str]:
    body = request.body
    return dict(parse_qsl(body if isinstance(body, str) else (body or b"").decode()))


def document_of(recording: Recording) -> str:
    (url,) = recording.data["documents"]
    return str(url)


def has_verified_address(recording: Recording, mocked_requests: RequestsMock) -> bool:
    (address,) = profile_of(recording, mocked_requests).addresses
    assert address.primary
    return address.verified
