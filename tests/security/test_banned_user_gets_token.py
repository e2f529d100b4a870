"""Attack: a banned user, or one who was invited and then banned, gets tokens on a path that does not check the ban."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.mfa import verification
from accounts.models import Identity, User
from accounts.users.queries import AccountUsers
from authsvc.caller import Caller
from tests import factories
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.concurrency import run_in_order
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.factories import AUDIENCE, CHALLENGE, PASSWORD, make_one_time_token, make_user
from tests.oauthproviders.browser import Browser
from tests.observations import redirect_query
from tests.security import sign_in_attempts as attempts
from tests.security.sign_in_attempts import EMAIL, PHONE, Prepare
from tokens.models import Session, TokenType
from tokens.sessions.errors import UserBanned

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits", "sign_in_methods", "github")]

PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}


def ban(api: Api, user: User, duration: str = "24h") -> None:
    admin_requests.expect_success(api, "PUT", f"/admin/users/{user.id}", {"ban_duration": duration})


def invited(**columns: Any) -> tuple[User, str]:
    """An invited user, and the token of the mailed link."""
    user = make_user(email=EMAIL, confirmed=False, password="", invited_at=timezone.now(), **columns)
    return user, make_one_time_token(user, TokenType.CONFIRMATION).link_token


@pytest.mark.parametrize("pkce", [False, True])
@pytest.mark.parametrize("during_the_flow", [False, True])
def test_banned_user_cannot_accept_the_invitation_at_a_provider(pkce: bool, during_the_flow: bool, api: Api) -> None:
    browser = Browser()
    user, token = invited()
    if not during_the_flow:
        ban(api, user)
    state = browser.start(invite_token=token, **(PKCE if pkce else {}))
    if during_the_flow:
        ban(api, user)
    response = browser.callback(state)
    assert redirect_query(response)["error_code"] == "user_banned"
    assert not Session.objects.exists()
    assert not Identity.objects.filter(provider="github").exists()
    assert User.objects.get(id=user.id).email_confirmed_at is None
    ban(api, user, "none")
    accepted = browser.callback(state).headers["Location"]
    assert "code=" in accepted if pkce else "access_token=" in accepted


@pytest.mark.parametrize("by", ["email", "phone"])
def test_banned_user_cannot_sign_up_again_under_auto_confirm(by: str, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True}, sms={"autoconfirm": True})
    contact = {"email": EMAIL} if by == "email" else {"phone": PHONE}
    user = make_user(email=EMAIL, confirmed=False, phone=PHONE)
    ban(api, user)
    response = api.post("/signup", {**contact, "password": "another long password"})
    assert "access_token" not in response.json()
    assert not Session.objects.exists()
    row = User.objects.get(id=user.id)
    assert (row.password, row.confirmed_at) == (user.password, None)
    other = {"email": "bob@example.com"} if by == "email" else {"phone": "15557654321"}
    assert "access_token" in api.post("/signup", {**other, "password": PASSWORD}).json()


@pytest.mark.parametrize(
    "prepare",
    [
        attempts.by_password, attempts.by_link("recovery"), attempts.by_link("signup", TokenType.CONFIRMATION),
        attempts.by_link("invite", TokenType.CONFIRMATION), attempts.by_opened_link, attempts.by_email_code,
        attempts.by_sms_code, attempts.by_flow, attempts.by_provider, attempts.by_linking, attempts.by_refresh,
    ],
)  # fmt: skip
def test_no_sign_in_gives_a_banned_user_tokens(prepare: Prepare, api: Api) -> None:
    user = make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    attempt = prepare(api, user)
    before = set(Session.objects.values_list("id", flat=True))
    ban(api, user)
    response = attempt()
    shown = response.content.decode() + response.headers.get("Location", "")
    assert "user_banned" in shown
    assert "access_token" not in shown
    assert set(Session.objects.values_list("id", flat=True)) == before
    factories.backdate(User.objects.get(id=user.id), by=timedelta(hours=25))
    User.objects.filter(id=user.id).update(email_confirmed_at=timezone.now())
    assert admin_requests.can_sign_in(api, PASSWORD, email=EMAIL)


@pytest.mark.django_db(transaction=True)
def test_ban_that_overtakes_a_step_up_wins(api: Api) -> None:
    owner = factor_requests.make_owner()
    challenge_id = factor_requests.challenged(api, owner.token, owner.factor.id)
    code = factor_requests.code()

    def step_up() -> ApiResponse:
        return factor_requests.verify(api, owner.token, owner.factor.id, challenge_id, code)

    def ban_now() -> ApiResponse:
        return admin_requests.ask(api, "PUT", f"/admin/users/{owner.user.id}", {"ban_duration": "24h"})

    banned, refused = run_in_order(owner.user.id, ban_now, step_up)

    assert banned.status_code == 200
    assert (refused.status_code, refused.json()["error_code"]) == (403, "user_banned")
    assert Session.objects.get(id=owner.session.id).aal == "aal1"


def test_ban_during_the_verification_of_a_factor_wins(api: Api) -> None:
    """The service function gets the sign-in that was read before the ban."""
    owner = factor_requests.make_owner()
    factor_requests.step_up(api, owner)
    signed_in = AccountUsers().find_signed_in_user(user_id=owner.user.id, session_id=owner.session.id)
    assert signed_in is not None
    ban(api, owner.user)
    with pytest.raises(UserBanned):
        verification.complete_step_up(
            signed_in,
            method="totp",
            factor_id=owner.factor.id,
            redeem=lambda _: None,
            caller=Caller(audience=AUDIENCE),
            at=timezone.now(),
        )
