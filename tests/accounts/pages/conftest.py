"""The hosted pages, switched on, and a browser for them."""

from __future__ import annotations

import pytest

from accounts.models import User
from tests import factories
from tests.conftest import ChangeConfig
from tests.page_browser import PageBrowser


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})


@pytest.fixture
def browser() -> PageBrowser:
    return PageBrowser()


@pytest.fixture
def user() -> User:
    return factories.make_user(email="ada@example.com")


@pytest.fixture
def inside(browser: PageBrowser, user: User) -> PageBrowser:
    """The browser of the signed-in user."""
    response = browser.sign_in("ada@example.com")
    assert (response.status_code, response.headers["Location"]) == (303, "/account")
    return browser
