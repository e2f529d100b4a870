"""Sign-in on the hosted pages with an external provider."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from accounts.models import User
from oauthproviders.models import CustomProvider
from tests import factories
from tests.conftest import ChangeConfig
from tests.oauthproviders.browser import GitHub
from tests.page_browser import ACCOUNT, SIGN_IN, PageBrowser, read_location
from tokens.models import FlowState, Session

pytestmark = pytest.mark.django_db

PROVIDER, CALLBACK = "/account/provider", "/account/callback"


@pytest.fixture(autouse=True)
def _pages(auth_config: ChangeConfig) -> None:
    auth_config(pages={"enabled": True})


@pytest.fixture
def pages(github: GitHub) -> PageBrowser:
    """A browser, and GitHub with the user Ada."""
    return PageBrowser()


def start(browser: PageBrowser, *, query: str = "") -> str:
    """Press the button of GitHub and return the URL of the page there."""
    response = browser.submit(f"{SIGN_IN}{query}", to=PROVIDER, provider="github")
    assert response.status_code == 200
    refresh = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', response.content.decode())
    assert refresh
    return unescape(refresh[1])


def return_from(url: str, browser: PageBrowser, **query: str) -> str:
    """Send the browser to `/callback` as the provider does, and return where that leads."""
    state = parse_qs(urlsplit(url).query)["state"][0]
    response: Any = browser.client.get("/callback", {"state": state, "code": "authcode", **query})
    assert response.status_code == 302
    target = urlsplit(response.headers["Location"])
    assert f"{target.scheme}://{target.netloc}{target.path}" == "http://127.0.0.1:8081/account/callback"
    return f"{target.path}?{target.query}"


def test_a_user_signs_in_at_a_provider(pages: PageBrowser) -> None:
    url = start(pages, query="?next=/oauth/device")
    assert parse_qs(urlsplit(url).query)["client_id"] == ["cid"]
    back = return_from(url, pages)
    assert set(parse_qs(urlsplit(back).query)) == {"code"}
    response = pages.get(back)
    assert read_location(response) == (303, "/oauth/device")
    assert response.headers["Referrer-Policy"] == "strict-origin"
    assert pages.is_in
    assert "ada@example.com" in pages.text(ACCOUNT)
    assert Session.objects.get().user.email == "ada@example.com"
    # The code works once.
    assert pages.get(back).status_code == 400


def test_a_configured_redirect_of_all_providers_is_not_that_of_the_pages(
    pages: PageBrowser, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"redirect_url": "https://app.example.com/welcome"})
    assert read_location(pages.get(return_from(start(pages), pages))) == (303, ACCOUNT)


def test_a_code_works_in_no_other_browser(pages: PageBrowser) -> None:
    """Neither can a code of an attacker sign a victim in, nor a stolen code an attacker."""
    back = return_from(start(pages), pages)
    without_flow, with_own_flow = PageBrowser(), PageBrowser()
    start(with_own_flow)
    for other in (without_flow, with_own_flow):
        assert other.get(back).status_code == 400
        assert not other.is_in
    assert not Session.objects.exists()
    assert pages.get(back).status_code == 303


def test_a_refusal_of_the_provider_is_shown_without_its_text(pages: PageBrowser) -> None:
    back = return_from(start(pages), pages, error="access_denied", error_description="<b>Call 555 now</b>", code="")
    response = pages.get(back)
    assert response.status_code == 400
    assert "The provider has not confirmed the sign-in." in response.content.decode()
    assert "Call 555" not in response.content.decode()
    banned = pages.get(f"{CALLBACK}?error=access_denied&error_code=user_banned&error_description=x")
    assert "This account is locked." in banned.content.decode()


def test_a_second_factor_is_still_required(pages: PageBrowser) -> None:
    pages.get(return_from(start(pages), pages))
    factories.make_factor(User.objects.get())
    other = PageBrowser()
    response = other.get(return_from(start(other, query="?next=/account/profile"), other))
    assert read_location(response) == (303, "/account/second-factor?next=%2Faccount%2Fprofile")


def test_only_enabled_providers_have_a_button(pages: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"enabled": True})
    columns = {"provider_type": "oauth2", "client_id": "c", "client_secret": "s"}
    for name, enabled in (("Company", True), ("Former", False)):
        CustomProvider.objects.create(
            identifier=f"custom:{name.lower()}",
            name=name,
            enabled=enabled,
            authorization_url="https://idp.example.com/a",
            token_url="https://idp.example.com/t",
            userinfo_url="https://idp.example.com/u",
            **columns,
        )
    page = pages.text(SIGN_IN)
    assert re.findall(r'name="provider" value="([^"]+)">Continue with ([^<]+)<', page) == [
        ("github", "GitHub"),
        ("custom:company", "Company"),
    ]
    assert 'value="github"' in pages.text("/account/sign-up")
    for name in ("unknown", "custom:former"):
        response = pages.submit(SIGN_IN, to=PROVIDER, provider=name)
        assert response.status_code == 400
    assert not FlowState.objects.exists()


def test_a_flow_starts_by_a_form_of_this_service_only(pages: PageBrowser) -> None:
    assert read_location(pages.get(f"{PROVIDER}?provider=github&next=/oauth/device")) == (
        303,
        "/account/sign-in?next=%2Foauth%2Fdevice",
    )
    response: Any = pages.client.post(PROVIDER, {"provider": "github"})
    assert response.status_code == 403
    assert not FlowState.objects.exists()
