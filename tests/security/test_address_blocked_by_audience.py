"""Attack: a stranger signs up with the address of another person in an audience of no application, to block it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import User
from tests.accounts.administration import admin_requests
from tests.conftest import Api, Mailbox
from tests.factories import AUDIENCE
from tests.oauthproviders.browser import Browser, GitHub, address
from tests.observations import backdate_rate_limits, redirect_fragment

pytestmark = pytest.mark.django_db

EMAIL = "victim@example.com"
ELSEWHERE = {"X-JWT-AUD": "elsewhere"}
OWNERS, STRANGERS = "the owner's password", "the stranger's password"


@pytest.fixture(autouse=True)
def _blocked(api: Api, mailbox: Mailbox) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": STRANGERS}, headers=ELSEWHERE).status_code == 200
    backdate_rate_limits(timedelta(hours=1))
    mailbox.clear()


def test_a_sign_up_elsewhere_does_not_move_the_account_of_the_owner(api: Api, mailbox: Mailbox) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": OWNERS}).status_code == 200
    backdate_rate_limits(timedelta(hours=1))
    assert api.post("/signup", {"email": EMAIL, "password": STRANGERS}, headers=ELSEWHERE).status_code == 200
    assert [email.to for email in mailbox.emails] == [EMAIL]
    body = {"type": "email", "token_hash": mailbox.emails[0].variables["TokenHash"]}
    assert api.post("/verify", body).json()["user"]["aud"] == AUDIENCE


@pytest.mark.parametrize("path", ["/signup", "/otp", "/magiclink"])
def test_the_owner_signs_up_in_the_own_audience(api: Api, mailbox: Mailbox, path: str) -> None:
    assert api.post(path, {"email": EMAIL, "password": OWNERS}).status_code == 200
    assert [email.to for email in mailbox.emails] == [EMAIL]
    body = {"type": "email", "token_hash": mailbox.emails[0].variables["TokenHash"]}
    assert api.post("/verify", body).json()["user"]["aud"] == AUDIENCE
    assert api.post("/token?grant_type=password", {"email": EMAIL, "password": STRANGERS}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body"), [("/invite", {}), ("/admin/generate_link", {"type": "signup", "password": OWNERS})]
)
def test_an_administrator_admits_the_owner(api: Api, path: str, body: dict[str, str]) -> None:
    admitted = admin_requests.expect_success(api, "POST", path, {"email": EMAIL, **body})
    assert (admitted["email"], admitted["aud"]) == (EMAIL, AUDIENCE)


def test_the_owner_signs_in_at_a_provider(browser: Browser, github: GitHub) -> None:
    github.set_user(address(EMAIL, verified=True))
    assert "access_token" in redirect_fragment(browser.sign_in())
    assert User.objects.get(email=EMAIL).aud == AUDIENCE
