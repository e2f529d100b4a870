"""Every provider from GET /authorize to GET /user, against a peer on loopback that answers as the provider does."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.conf import settings
from django.test import Client

from oauthproviders import registry
from oauthproviders.oidc import openid_connect
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.fakes.http_peer import HttpPeer
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.recordings import Recording
from tests.observations import redirect_fragment
from tokens.models import FlowState

pytestmark = pytest.mark.django_db

EVERY = pytest.mark.parametrize("recording", recordings.ALL.values(), ids=recordings.ALL)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    openid_connect.clear_caches()
    with HttpPeer() as running:
        yield running


@pytest.fixture
def at_peer(peer: HttpPeer, auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recorded provider at the peer, switched on in this service."""

    def move(recording: Recording) -> Recording:
        moved = recording.there(peer.url)
        for address, answer in moved.answers().items():
            peer.answer(answer, path=urlsplit(address).path)
        kind = registry.PROVIDERS[recording.name]
        if hasattr(kind, "issuer"):
            monkeypatch.setattr(kind, "issuer", moved.issuer)
        if hasattr(kind, "issuers"):
            monkeypatch.setattr(kind, "issuers", (moved.issuer,))
        auth_config(providers={**settings.AUTH.providers, recording.name: moved.config})
        return moved

    return move


def sign_in(api: Api, recording: Recording) -> Answer:
    """What the callback answers to a browser that has been to the provider."""
    answer = api.get(f"/authorize?provider={recording.name}")
    assert answer.status_code == 302, answer.content
    address, _, query = answer.headers["Location"].partition("?")
    assert address == recording.authorize
    sent = dict(parse_qsl(query))
    if recording.is_oauth1:
        # The state is in the callback that the provider was told when it gave out the request token.
        assert sent == {"oauth_token": "a"}
        return api.get(f"/callback?{urlencode({'state': flow_at(), 'oauth_token': 'a', 'oauth_verifier': 'v'})}")
    brought: Mapping[str, str] = {"state": sent["state"], "code": "authcode", **recording.data.get("callback", {})}
    if sent.get("response_mode") == "form_post":
        posted: Any = Client().post("/callback", urlencode(brought), content_type="application/x-www-form-urlencoded")
        return posted  # type: ignore[no-any-return]
    return api.get(f"/callback?{urlencode(brought)}")


def flow_at() -> str:
    return str(FlowState.objects.get().id)


@EVERY
def test_somebody_signs_in_and_is_known_again(
    recording: Recording, at_peer: Any, api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    moved = at_peer(recording)
    is_verified = recording.data["addresses"][-1]["verified"] or recording.data["addresses"][0]["verified"]
    auth_config(
        mailer={"allow_unverified_email_sign_ins": not is_verified}, smtp={"max_frequency": timedelta(microseconds=1)}
    )
    first = redirect_fragment(sign_in(api, moved))
    assert first["provider"] == recording.name
    assert first["provider_token"] == "t"
    assert first.get("provider_refresh_token") == (None if recording.is_oauth1 else "r")
    user = api.get("/user", bearer=first["access_token"]).json()
    assert user["email"] == "ada@example.com"
    assert ("email_confirmed_at" in user) is is_verified
    assert user["app_metadata"] == {"provider": recording.name, "providers": [recording.name]}
    (identity,) = user["identities"]
    said = identity["identity_data"]
    assert (identity["provider"], identity["id"]) == (recording.name, said["sub"])
    iss = said.pop("iss")
    assert iss == recording.data["identity_data"]["iss"] or iss.startswith(moved.home)
    claimed = {"email": "ada@example.com", "email_verified": is_verified, "phone_verified": False}
    assert said == {**moved.identity_data, **claimed}
    assert [str(mail.kind) for mail in mailbox.emails] == ([] if is_verified else ["confirmation"])
    again = redirect_fragment(sign_in(api, moved))
    assert api.get("/user", bearer=again["access_token"]).json()["id"] == user["id"]


@EVERY
def test_nobody_signs_in_whom_the_provider_does_not_know(
    recording: Recording, at_peer: Any, api: Api, auth_config: ChangeConfig
) -> None:
    nobody = at_peer(recording.with_value(recording.subject, ""))
    auth_config(
        providers={
            **settings.AUTH.providers,
            recording.name: dataclasses.replace(settings.AUTH.providers[recording.name], email_optional=True),
        }
    )
    answer = sign_in(api, nobody)
    assert answer.status_code == 302
    told = redirect_fragment(answer)
    assert told["error"] == "server_error"
    assert told["error_code"] == "unexpected_failure"
    assert "access_token" not in told
