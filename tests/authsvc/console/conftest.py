"""A browser for console tests: keeps cookies, submits forms and enforces CSRF and cookie attributes."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from accounts.models import User
from tests import factories
from tests.conftest import ApiResponse
from tests.factories import PASSWORD

SIGN_IN = "/operator/login/"
START = "/operator/"
USERS = "/operator/accounts/user/"
LISTS = sorted(f"{model._meta.app_label}/{model._meta.model_name}" for model in admin.site._registry)
"""Paths of all lists below `START`."""


class Console:
    """One browser of an operator."""

    def __init__(self) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self._csrf_tokens: dict[str, str] = {}
        """The token in forms of each CSRF cookie."""

    def get(self, path: str = START, **headers: str) -> ApiResponse:
        response: Any = self.client.get(path, headers=headers)
        return response  # type: ignore[no-any-return]

    def text(self, path: str) -> str:
        """The text of a page that exists."""
        page = self.get(path)
        assert page.status_code == 200, page.content
        return page.content.decode()

    def submit(self, page: str, *, to: str = "", headers: Any = None, **fields: str) -> ApiResponse:
        """Submit the form of a page. The page is read for its CSRF token, unless another one had the same cookie."""
        if self.cookie("operator_csrf") not in self._csrf_tokens:
            token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(page).content)
            assert token, "the page has no form"
            self._csrf_tokens[self.cookie("operator_csrf")] = token[1].decode()
        form = {"csrfmiddlewaretoken": self._csrf_tokens[self.cookie("operator_csrf")], **fields}
        response: Any = self.client.post(to or page, form, headers=headers)
        return response  # type: ignore[no-any-return]

    def sign_in(self, name: str, password: str = PASSWORD, *, next: str = "") -> ApiResponse:
        return self.submit(SIGN_IN, name=name, password=password, next=next)

    def sign_out(self) -> ApiResponse:
        return self.submit(START, to="/operator/logout/")

    @property
    def is_in(self) -> bool:
        response = self.get()
        assert response.status_code in (200, 302)
        return response.status_code == 200

    def cookie(self, name: str = "operator_session") -> str:
        return self.client.cookies[name].value if name in self.client.cookies else ""


def page_of(user: User) -> str:
    return f"{USERS}{user.pk}/change/"


def timeline_of(user: User, query: str = "") -> str:
    return f"{USERS}{user.pk}/timeline/{query}"


def sign_in_as(role: str) -> Console:
    """The browser of a new operator with that role."""
    factories.make_user(email=f"{role}@staff.example", role=role)
    console = Console()
    assert console.sign_in(f"{role}@staff.example").status_code == 302
    return console


def fields_of(page: str) -> dict[str, str]:
    """The fields of a form, as a browser would send them."""
    form = {}
    for tag in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r'name="([^"]+)"', tag), re.search(r'value="([^"]*)"', tag)
        if name and ("checkbox" not in tag or " checked" in tag):
            form[name[1]] = html.unescape(value[1]) if value else "on" if "checkbox" in tag else ""
    for name, text in re.findall(r'<textarea name="([^"]+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL):
        form[name] = html.unescape(text)
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        for value in re.findall(r'value="([^"]*)" selected', options):
            form[name] = html.unescape(value)
    del form["csrfmiddlewaretoken"]
    return form


def remove_tokens(response: ApiResponse) -> tuple[int, list[str], set[str]]:
    """The status, the lines without the CSRF token, and the names of the headers."""
    lines = [line for line in response.content.decode().splitlines() if "csrfmiddlewaretoken" not in line]
    return response.status_code, lines, set(response.headers)


@pytest.fixture
def console() -> Console:
    return Console()


@pytest.fixture
def operator() -> User:
    return factories.make_user(email="op@example.com", role="svc_admin")


@pytest.fixture
def inside(console: Console, operator: User) -> Console:
    """The browser of the signed-in operator."""
    assert console.sign_in("op@example.com").status_code == 302
    return console
