"""A browser that somebody signs in with elsewhere, and the provider they sign in at, which is a local one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.test import Client

from authsvc.conf import Provider, Secret
from tests.conftest import Answer, Api
from tests.fakes.http_peer import HttpPeer, in_json

SITE = "https://app.example.com"
REDIRECT_URI = "https://auth.example.com/callback"
TOKEN_PATH = "/login/oauth/access_token"
USER_PATH = "/api/v3/user"
EMAILS_PATH = "/api/v3/user/emails"
ADA = {"id": 7, "login": "ada", "name": "Ada L", "avatar_url": "https://img.example/a.png"}


def configured(**changes: Any) -> Provider:
    """Settings of a provider that can be used."""
    usual = {"enabled": True, "client_ids": ("cid",), "secret": Secret("sec"), "redirect_uri": REDIRECT_URI}
    return Provider(**{**usual, **changes})


def address(email: str, *, verified: bool = True, primary: bool = True) -> dict[str, Any]:
    return {"email": email, "verified": verified, "primary": primary}


class GitHub:
    """A GitHub Enterprise of our own, where one person is signed in at a time."""

    def __init__(self, peer: HttpPeer) -> None:
        self.peer = peer
        self.gives_token({"access_token": "gho_x"})
        self.is_visited_by("ada@example.com")

    def gives_token(self, token: Mapping[str, Any]) -> None:
        self.peer.answer(in_json(token), path=TOKEN_PATH)

    def is_visited_by(self, *emails: str | dict[str, Any], id: Any = 7, **changes: Any) -> None:
        """Addresses given as text are verified; the first one is the primary one."""
        known = [
            address(each, primary=number == 0) if isinstance(each, str) else each for number, each in enumerate(emails)
        ]
        self.peer.answer(in_json({**ADA, "id": id, **changes}), path=USER_PATH)
        self.peer.answer(in_json(known), path=EMAILS_PATH)


class Browser:
    """Goes to the provider and comes back; keeps cookies."""

    def __init__(self, *, provider: str = "github") -> None:
        self.provider = provider
        self.client = Client()

    def depart(self, **query: str) -> str:
        """Set out; the state."""
        answer = self.ask(**query)
        assert answer.status_code == 302, answer.content
        return state_of(answer.headers["Location"])

    def ask(self, **query: str) -> Answer:
        return self._get(f"/authorize?{urlencode({'provider': self.provider, **query})}")

    def come_back(self, state: str, **query: str) -> Answer:
        return self._get(f"/callback?{urlencode({'state': state, 'code': 'authcode', **query})}")

    def sign_in(self, **query: str) -> Answer:
        return self.come_back(self.depart(**query))

    def _get(self, path: str) -> Answer:
        answer: Any = self.client.get(path)
        return answer  # type: ignore[no-any-return]


def state_of(location: str) -> str:
    return dict(parse_qsl(urlsplit(location).query))["state"]


def link(api: Api, bearer: str, **query: str) -> str:
    """Set out to link a further identity; the state."""
    asked = urlencode({"provider": "github", "skip_http_redirect": "true", **query})
    answer = api.get(f"/user/identities/authorize?{asked}", bearer=bearer)
    assert answer.status_code == 200, answer.content
    return state_of(answer.json()["url"])


def location_of(answer: Answer) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
    """Where a redirect goes: the address, its query and its fragment."""
    parts = urlsplit(answer.headers["Location"])
    pairs: Sequence[list[tuple[str, str]]] = [
        parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)) for text in (parts.query, parts.fragment)
    ]
    return f"{parts.scheme}://{parts.netloc}{parts.path}", pairs[0], pairs[1]


def refused_with(answer: Answer, error: str, error_code: str | None, text: str, *, to: str = SITE) -> None:
    """Assert that a browser is sent to `to` with this refusal, in the query and in the fragment."""
    told = [("error", error), *([("error_code", error_code)] if error_code else []), ("error_description", text)]
    assert (answer.status_code, location_of(answer)) == (302, (to, told, [*told, ("sb", "")]))
    assert answer.content == b""
