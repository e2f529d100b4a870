"""Linked accounts on the account pages: linking at a provider with PKCE, and unlinking."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.messaging import EmailType
from tests import factories
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.fakes.http_peer import MockedServer
from tests.oauthproviders.browser import GitHub
from tests.oauthproviders.conftest import server, use_github
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser
from tokens.models import FlowState, Session

pytestmark = pytest.mark.django_db

__all__ = ["server"]  # a fixture

IDENTITIES = "/account/identities"


@pytest.fixture
def github(server: MockedServer, auth_config: ChangeConfig) -> GitHub:
    others = auth_config().providers
    running = use_github(server, auth_config)
    auth_config(providers={**others, **auth_config().providers})
    return running


def start(browser: PageBrowser) -> dict[str, str]:
    """Start linking and return the parameters of the request to the provider."""
    response = browser.submit(IDENTITIES, provider="github")
    assert response.status_code == 200, response.content
    refresh = re.search(r'content="0; url=([^"]+)"', response.content.decode())
    assert refresh, response.content
    target = urlsplit(html.unescape(refresh[1]))
    assert target.netloc == "provider.example.com"
    return {name: values[0] for name, values in parse_qs(target.query).items()}


def return_from_provider(browser: PageBrowser, state: str, **query: str) -> ApiResponse:
    """The callback of the service, and its redirect to the page."""
    query = {"state": state, **(query or {"code": "authcode"})}
    location = browser.get(f"/callback?{urlencode(query)}").headers["Location"]
    parts = urlsplit(location)
    assert parts.path == f"{IDENTITIES}/linked", location
    return browser.get(f"{parts.path}?{parts.query}")


def test_each_identity_shows_its_address(inside: PageBrowser, user: User) -> None:
    User.objects.update(phone="491701234567", phone_confirmed_at=timezone.now())
    Identity.objects.update(provider="phone", identity_data={"sub": str(user.id), "phone": "491701234567"})
    page = inside.text(IDENTITIES)
    assert "Phone number<br>" in page
    assert "+491701234567" in page


def test_a_provider_is_linked_without_another_session(
    inside: PageBrowser, user: User, github: GitHub, mailbox: Mailbox
) -> None:
    session = Session.objects.get()
    assert "Link GitHub" in inside.text(IDENTITIES)
    response = return_from_provider(inside, start(inside)["state"])
    assert response.headers["Location"] == IDENTITIES
    assert "Linked: GitHub" in inside.text(IDENTITIES)
    assert set(Identity.objects.filter(user=user).values_list("provider", flat=True)) == {"email", "github"}
    assert Session.objects.get() == session
    assert not FlowState.objects.exists()
    assert [mail.type for mail in mailbox.emails] == [EmailType.IDENTITY_LINKED]
    assert "identity_linked" in [entry["action"] for entry in audit_payloads()]


def test_the_flow_cookie_binds_linking_to_the_browser(
    inside: PageBrowser, github: GitHub, auth_config: ChangeConfig
) -> None:
    auth_config(federation={"flow_binding_enabled": True})
    state = start(inside)["state"]
    stranger = Api().get(f"/callback?state={state}&code=authcode")
    assert "linked" not in stranger.headers["Location"]
    assert return_from_provider(inside, state).headers["Location"] == IDENTITIES
    assert Identity.objects.count() == 2


def test_a_code_without_its_verifier_is_refused(inside: PageBrowser, user: User, github: GitHub) -> None:
    code = factories.make_flow(user, method="oauth", linking_target_id=user.id).auth_code
    response = inside.get(f"{IDENTITIES}/linked?code={code}")
    assert response.headers["Location"] == IDENTITIES
    assert "Linked:" not in inside.text(IDENTITIES)
    assert FlowState.objects.exists()


def test_texts_that_no_row_can_have_are_refused(inside: PageBrowser, github: GitHub, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"enabled": True})
    assert inside.submit(IDENTITIES, provider="custom:\0").status_code == 400
    response = inside.client.get(f"{IDENTITIES}/linked", {"code": "\0" + "a" * 35})
    assert response.headers["Location"] == IDENTITIES


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"error": "access_denied", "error_description": "<script>"}, "The account was not linked."),
        ({"error_code": "identity_already_exists"}, "This identity is already linked to an account."),
        ({"error_code": "<b>"}, "The account was not linked."),
    ],
)
def test_errors_of_the_provider_are_shown_in_own_words(inside: PageBrowser, query: dict[str, str], text: str) -> None:
    assert inside.get(f"{IDENTITIES}/linked?{urlencode(query)}").headers["Location"] == IDENTITIES
    page = inside.text(IDENTITIES)
    assert text in page
    assert "<script>" not in page
    assert "<b>" not in page


def test_an_identity_of_another_user_is_not_linked(inside: PageBrowser, github: GitHub) -> None:
    return_from_provider(inside, start(inside)["state"])
    other = PageBrowser()
    factories.make_user(email="bob@example.com")
    other.sign_in("bob@example.com")
    return_from_provider(other, start(other)["state"])
    assert "already linked" in other.text(IDENTITIES)
    assert Identity.objects.filter(provider="github").count() == 1


def test_an_identity_is_unlinked_but_not_the_last(inside: PageBrowser, github: GitHub, mailbox: Mailbox) -> None:
    assert "Unlink" not in inside.text(IDENTITIES)
    only = Identity.objects.get()
    refused = inside.submit(f"{IDENTITIES}/{only.id}/removal")
    assert refused.status_code == 422
    return_from_provider(inside, start(inside)["state"])
    linked = Identity.objects.get(provider="github")
    page = f"{IDENTITIES}/{linked.id}/removal"
    assert "GitHub" in inside.text(page)
    assert inside.submit(page).headers["Location"] == IDENTITIES
    assert Identity.objects.get() == only
    assert mailbox.emails[-1].type == EmailType.IDENTITY_UNLINKED
    assert audit_payloads()[-1]["action"] == "identity_unlinked"


def test_disabled_linking_is_not_offered(inside: PageBrowser, github: GitHub, auth_config: ChangeConfig) -> None:
    auth_config(signup={"manual_linking_enabled": False})
    page = inside.text(IDENTITIES)
    assert "ada@example.com" in page
    assert "Link GitHub" not in page
    assert inside.submit("/account/profile", to=IDENTITIES, provider="github").status_code == 404
    identity = Identity.objects.get()
    assert inside.get(f"{IDENTITIES}/{identity.id}/removal").status_code == 404


def test_an_unknown_provider_is_refused(inside: PageBrowser, github: GitHub) -> None:
    refused = inside.submit(IDENTITIES, provider="unknown")
    assert refused.status_code == 400
    assert html.unescape(refused.content.decode())
    assert not FlowState.objects.exists()
