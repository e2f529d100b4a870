"""A browser that signs in at a provider, and a fake GitHub Enterprise server as the provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.test import Client

from authsvc.conf import Provider, Secret
from tests.conftest import Api, ApiResponse
from tests.fakes.http_peer import FakeServer, in_json
from tests.observations import redirect_query, with_elapsed_time

SITE = "https://app.example.com"
REDIRECT_URI = "https://auth.example.com/callback"
TOKEN_PATH = "/login/oauth/access_token"
USER_PATH = "/api/v3/user"
EMAILS_PATH = "/api/v3/user/emails"
ADA = {"id": 7, "login": "ada", "name": "Ada L", "avatar_url": "https://img.example/a.png"}


def provider_settings(**changes: Any) -> Provider:
    """Complete settings of a provider, with `changes`."""
    defaults = {"enabled": True, "client_ids": ("cid",), "secret": Secret("sec"), "redirect_uri": REDIRECT_URI}
    return Provider(**{**defaults, **changes})


def address(email: str, *, verified: bool = True, primary: bool = True) -> dict[str, Any]:
    return {"email": email, "verified": verified, "primary": primary}


class GitHub:
    """A GitHub Enterprise server with one signed-in user."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.set_token_response({"access_token": "gho_x"})
        self.set_user("ada@example.com")

    def set_token_response(self, token: Mapping[str, Any]) -> None:
        self.server.respond(in_json(token), path=TOKEN_PATH)

    def set_user(self, *emails: str | dict[str, Any], id: Any = 7, **changes: Any) -> None:
        """The profile of the signed-in user. An email that is a text is verified; the first one is primary."""
        addresses = [
            address(email, primary=number == 0) if isinstance(email, str) else email
            for number, email in enumerate(emails)
        ]
        self.server.respond(in_json({**ADA, "id": id, **changes}), path=USER_PATH)
        self.server.respond(in_json(addresses), path=EMAILS_PATH)


class Browser:
    """Sends the requests of a browser during a sign-in; stores cookies."""

    def __init__(self, *, provider: str = "github") -> None:
        self.provider = provider
        self.client = Client()

    def start(self, **query: str) -> str:
        """Start a flow and return its state."""
        response = self.authorize(**query)
        assert response.status_code == 302, response.content
        return get_state(response.headers["Location"])

    def authorize(self, **query: str) -> ApiResponse:
        return self._get(f"/authorize?{urlencode({'provider': self.provider, **query})}")

    def callback(self, state: str, **query: str) -> ApiResponse:
        return self._get(f"/callback?{urlencode({'state': state, 'code': 'authcode', **query})}")

    def sign_in(self, **query: str) -> ApiResponse:
        return self.callback(self.start(**query))

    def _get(self, path: str) -> ApiResponse:
        response: Any = self.client.get(path)
        return response  # type: ignore[no-any-return]


def get_state(location: str) -> str:
    return dict(parse_qsl(urlsplit(location).query))["state"]


def start_link_flow(api: Api, bearer: str, **query: str) -> str:
    """Start a flow that links another identity, and return its state."""
    parameters = urlencode({"provider": "github", "skip_http_redirect": "true", **query})
    response = api.get(f"/user/identities/authorize?{parameters}", bearer=bearer)
    assert response.status_code == 200, response.content
    return get_state(response.json()["url"])


def parse_location(response: ApiResponse) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
    """URL, query and fragment of a redirect."""
    parts = urlsplit(response.headers["Location"])
    pairs: Sequence[list[tuple[str, str]]] = [
        parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)) for text in (parts.query, parts.fragment)
    ]
    return f"{parts.scheme}://{parts.netloc}{parts.path}", pairs[0], pairs[1]


def assert_error_redirect(
    response: ApiResponse, error: str, error_code: str | None, text: str, *, to: str = SITE
) -> None:
    """Assert a redirect to `to` with this error in the query and in the fragment."""
    text = with_elapsed_time(text, found=redirect_query(response).get("error_description", ""))
    parameters = [("error", error), *([("error_code", error_code)] if error_code else []), ("error_description", text)]
    assert (response.status_code, parse_location(response)) == (302, (to, parameters, [*parameters, ("sb", "")]))
    assert response.content == b""
