"""Recorded sign-ins with every provider, from GET /authorize to GET /user, at a server on loopback."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.conf import settings
from django.test import Client

from oauthproviders import registry
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.recordings import Recording
from tests.observations import redirect_fragment

pytestmark = pytest.mark.django_db

EVERY = pytest.mark.parametrize("recording", recordings.ALL.values(), ids=recordings.ALL)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with HttpPeer() as running:
        yield running


@pytest.fixture
def enable_at_peer(peer: HttpPeer, auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`enable_at_peer(recording)` serves the recorded responses and enables the provider."""

    def enable(recording: Recording) -> Recording:
        moved = recording.at_server(peer.url)
        for address, response in moved.documents().items():
            peer.respond(response, path=urlsplit(address).path)
        kind = registry.PROVIDERS[recording.name]
        if hasattr(kind, "issuer"):
            monkeypatch.setattr(kind, "issuer", moved.issuer)
        if hasattr(kind, "issuers"):
            monkeypatch.setattr(kind, "issuers", (moved.issuer,))
        auth_config(providers={**settings.AUTH.providers, recording.name: moved.config})
        return moved

    return enable


def sign_in(api: Api, recording: Recording, peer: HttpPeer) -> ApiResponse:
    """Start a flow and return the response of its callback."""
    response = api.get(f"/authorize?provider={recording.name}")
    assert response.status_code == 302, response.content
    address, _, query = response.headers["Location"].partition("?")
    assert address == recording.authorize
    sent = dict(parse_qsl(query))
    if recording.is_oauth1:
        # The state is in the callback URL of the request token.
        assert sent == {"oauth_token": "a"}
        return api.get(f"/callback?{urlencode({'state': get_state(peer), 'oauth_token': 'a', 'oauth_verifier': 'v'})}")
    parameters: Mapping[str, str] = {"state": sent["state"], "code": "authcode", **recording.data.get("callback", {})}
    if sent.get("response_mode") == "form_post":
        posted: Any = Client().post(
            "/callback", urlencode(parameters), content_type="application/x-www-form-urlencoded"
        )
        return posted  # type: ignore[no-any-return]
    return api.get(f"/callback?{urlencode(parameters)}")


def get_state(peer: HttpPeer) -> str:
    """The state in the callback URL of the newest request token."""
    headers = [str(request.headers["Authorization"]) for request in peer.received if "Authorization" in request.headers]
    states = [match[1] for header in headers if (match := re.search(r"state%3D([0-9a-f-]{36})", header))]
    return states[-1]


AZURE_TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"


@EVERY
def test_a_user_signs_in_twice_with_the_same_account(
    recording: Recording,
    enable_at_peer: Any,
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    peer: HttpPeer,
) -> None:
    moved = enable_at_peer(recording)
    is_verified = recording.data["addresses"][-1]["verified"] or recording.data["addresses"][0]["verified"]
    auth_config(
        mailer={"allow_unverified_email_sign_ins": not is_verified}, smtp={"max_frequency": timedelta(microseconds=1)}
    )
    first = redirect_fragment(sign_in(api, moved, peer))
    assert first["provider"] == recording.name
    assert first["provider_token"] == "t"
    assert first.get("provider_refresh_token") == (None if recording.is_oauth1 else "r")
    user = api.get("/user", bearer=first["access_token"]).json()
    # An unverified address is a pending change of an account that is in use.
    assert (user["email"], user.get("new_email")) == (
        ("ada@example.com", None) if is_verified else ("", "ada@example.com")
    )
    assert ("email_confirmed_at" in user) is is_verified
    assert user["app_metadata"] == {"provider": recording.name, "providers": [recording.name]}
    (identity,) = user["identities"]
    identity_data = identity["identity_data"]
    tenant = f"{AZURE_TENANT}:" if recording.name == "azure" else ""
    assert (identity["provider"], identity["id"]) == (recording.name, f"{tenant}{identity_data['sub']}")
    iss = identity_data.pop("iss")
    assert iss == recording.data["identity_data"]["iss"] or iss.startswith(moved.base_url)
    email_claims = {"email": "ada@example.com", "email_verified": is_verified, "phone_verified": False}
    assert identity_data == {**moved.identity_data, **email_claims}
    assert [str(mail.type) for mail in mailbox.emails] == ([] if is_verified else ["email_change"])
    again = redirect_fragment(sign_in(api, moved, peer))
    assert api.get("/user", bearer=again["access_token"]).json()["id"] == user["id"]


@EVERY
def test_a_profile_without_a_subject_is_an_error(
    recording: Recording, enable_at_peer: Any, api: Api, auth_config: ChangeConfig, peer: HttpPeer
) -> None:
    moved = enable_at_peer(recording.with_value(recording.subject, ""))
    auth_config(
        providers={
            **settings.AUTH.providers,
            recording.name: dataclasses.replace(settings.AUTH.providers[recording.name], email_optional=True),
        }
    )
    response = sign_in(api, moved, peer)
    assert response.status_code == 302
    fragment = redirect_fragment(response)
    assert fragment["error"] == "server_error"
    assert fragment["error_code"] == "unexpected_failure"
    assert "access_token" not in fragment
