"""Attack: with auto-confirm, the owner of the new address alone completes a secure email change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import User
from authsvc.messaging import Email
from tests import factories
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, make_user
from tests.observations import backdate_rate_limits
from tokens.models import Session

pytestmark = pytest.mark.django_db

EMAIL = "ada@example.com"
NEW = "new@example.com"


@pytest.fixture(autouse=True)
def auto_confirm(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True, "secure_email_change_enabled": True})


def message_to(mailbox: Mailbox, address: str) -> Email:
    [message] = [message for message in mailbox.emails if message.to == address]
    return message


def open_link(api: Api, message: Email) -> ApiResponse:
    variables: Any = message.variables
    return api.get(f"/verify?type=email_change&token={variables['TokenHash']}")


def enter_code(api: Api, message: Email) -> ApiResponse:
    variables: Any = message.variables
    return api.post("/verify", {"type": "email_change", "email": message.to, "token": variables["Token"]})


def post_link(api: Api, message: Email) -> ApiResponse:
    variables: Any = message.variables
    return api.post("/verify", {"type": "email_change", "token_hash": variables["TokenHash"]})


@pytest.mark.parametrize("confirm", [open_link, enter_code, post_link])
@pytest.mark.parametrize("pkce", [False, True])
def test_new_address_alone_does_not_complete_the_change(confirm: Any, pkce: bool, api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    token = factories.make_session(user).access_token
    challenge = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"} if pkce else {}
    assert api.put("/user", {"email": NEW, **challenge}, bearer=token).status_code == 200
    first = confirm(api, message_to(mailbox, NEW))
    assert (first.status_code, b"access_token" in first.content) in [(200, False), (303, False)]
    assert User.objects.get(id=user.id).email == EMAIL
    assert Session.objects.filter(user=user).count() == 1
    assert confirm(api, message_to(mailbox, NEW)).status_code in (303, 403)
    assert User.objects.get(id=user.id).email == EMAIL
    # The owner of the present address agrees.
    confirm(api, message_to(mailbox, EMAIL))
    assert User.objects.get(id=user.id).email == NEW


def test_an_unconfirmed_present_address_has_no_say(api: Api, mailbox: Mailbox) -> None:
    """It may belong to another person, who must get no link into this account."""
    user = make_user(email=EMAIL, confirmed=False)
    token = factories.make_session(user).access_token
    assert api.put("/user", {"email": NEW}, bearer=token).status_code == 200
    assert [message.to for message in mailbox.emails] == [NEW]
    open_link(api, message_to(mailbox, NEW))
    assert User.objects.get(id=user.id).email == NEW


def test_first_address_of_an_anonymous_user_needs_no_message(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(signup={"anonymous_enabled": True})
    token = api.post("/signup", {}).json()["access_token"]
    assert api.put("/user", {"email": NEW}, bearer=token).json()["email"] == NEW
    assert not mailbox.emails


def test_requesting_the_change_again_needs_both_confirmations_again(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    token = factories.make_session(user).access_token
    api.put("/user", {"email": NEW}, bearer=token)
    open_link(api, message_to(mailbox, NEW))
    mailbox.clear()
    backdate_rate_limits(timedelta(hours=1))
    assert api.post("/resend", {"type": "email_change", "email": EMAIL}).status_code == 200
    open_link(api, message_to(mailbox, NEW))
    assert User.objects.get(id=user.id).email == EMAIL
