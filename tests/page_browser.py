"""A browser for in-process tests of the hosted pages: keeps cookies, submits forms, enforces CSRF protection."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client

from tests.conftest import ApiResponse
from tests.factories import PASSWORD

SIGN_IN = "/account/sign-in"
ACCOUNT = "/account"
_INPUT = re.compile(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?')


class PageBrowser:
    def __init__(self) -> None:
        self.client = Client(enforce_csrf_checks=True)

    def get(self, path: str = ACCOUNT, **headers: str) -> ApiResponse:
        response: Any = self.client.get(path, headers=headers)
        return response  # type: ignore[no-any-return]

    def text(self, path: str) -> str:
        """The text of a page that exists."""
        page = self.get(path)
        assert page.status_code == 200, page.content
        return page.content.decode()

    def submit(self, page: str, /, *, to: str = "", headers: Any = None, **fields: str) -> ApiResponse:
        """Submit the form of a page with its hidden fields, to the page itself or to another path."""
        shown = self.get(page)
        hidden = {name: html.unescape(value) for name, value in _INPUT.findall(shown.content.decode())}
        assert "csrfmiddlewaretoken" in hidden, f"the page has no form: {shown.status_code} {shown.content!r}"
        response: Any = self.client.post(to or page, {**hidden, **fields}, headers=headers)
        return response  # type: ignore[no-any-return]

    def sign_in(self, name: str, password: str = PASSWORD, *, query: str = "") -> ApiResponse:
        return self.submit(f"{SIGN_IN}{query}", name=name, password=password)

    @property
    def is_in(self) -> bool:
        """The account page is shown, not the sign-in."""
        response = self.get()
        assert response.status_code in (200, 303)
        return response.status_code == 200

    @property
    def cookie(self) -> str:
        return self.client.cookies["account_session"].value if "account_session" in self.client.cookies else ""

    @cookie.setter
    def cookie(self, value: str) -> None:
        self.client.cookies["account_session"] = value


def read_location(response: ApiResponse) -> tuple[int, str]:
    """The status, and the target of a redirect or the page."""
    return response.status_code, response.headers.get("Location", response.content.decode())


def read_challenge(page: ApiResponse) -> str:
    """The challenge of a passkey in a form."""
    match = re.search(r'name="challenge" value="([^"]+)"', page.content.decode())
    assert match, page.content
    return match[1]


def read_text(response: ApiResponse) -> str:
    return html.unescape(response.content.decode())
