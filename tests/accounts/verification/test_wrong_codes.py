"""Wrong codes: each attempt is checked against one secret, and attempts per secret are limited."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Secret, Vonage
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import SignIn, make_one_time_token, make_session, make_user
from tests.observations import assert_error, backdate_rate_limits, table_contents
from tokens.models import OneTimeToken, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
CLAIMED = "claimed@example.com"
NUMBER = "15551234567"
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
LIMIT = 3


@pytest.fixture(autouse=True)
def phones(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"phone_enabled": True},
        codes={"max_attempts": LIMIT},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )


def make_anonymous_user(audience: str = "authenticated") -> SignIn:
    return make_session(make_user(email="", password="", is_anonymous=True, audience=audience))


def other_than(*codes: str) -> str:
    return next(guess for number in range(len(codes) + 1) if (guess := f"{number:06d}") not in codes)


# Many accounts waiting for one address


@pytest.mark.parametrize(
    ("type", "changes"), [("email_change", {"email": CLAIMED}), ("phone_change", {"phone": NUMBER})]
)
def test_wrong_code_is_counted_on_newest_secret(api: Api, mailbox: Mailbox, type: str, changes: dict[str, str]) -> None:
    anonymous_users = [make_anonymous_user() for _ in range(4)]
    for anonymous in anonymous_users:
        assert api.put("/user", changes, bearer=anonymous.access_token).status_code == 200
        backdate_rate_limits(timedelta(minutes=1))
    codes = [mail.variables["Token"] for mail in mailbox.emails] + [text.variables["Code"] for text in mailbox.sms]
    *older, last = codes

    def guess(code: str) -> ApiResponse:
        return api.post("/verify", {"type": type, **changes, "token": code})

    before = table_contents()
    if older[0] != last:
        assert_error(guess(older[0]), *CODE_DEAD)
    else:
        assert_error(guess(other_than(last)), *CODE_DEAD)
    changed = {table for table, held in table_contents().items() if before[table] != held}
    assert changed == {"one_time_tokens"}
    attempts = OneTimeToken.objects.values_list("user_id", "attempts")
    assert dict(attempts) == {anonymous.user.id: int(anonymous is anonymous_users[-1]) for anonymous in anonymous_users}

    response = guess(last)
    assert (response.status_code, response.json()["user"]["id"]) == (200, str(anonymous_users[-1].user.id))


def test_older_codes_are_invalid_after_newest_is_exhausted(api: Api, mailbox: Mailbox) -> None:
    for _ in range(2):
        assert api.put("/user", {"email": CLAIMED}, bearer=make_anonymous_user().access_token).status_code == 200
        backdate_rate_limits(timedelta(minutes=1))
    older, last = (mail.variables["Token"] for mail in mailbox.emails)
    for _ in range(LIMIT):
        body = {"type": "email_change", "email": CLAIMED, "token": other_than(older, last)}
        assert_error(api.post("/verify", body), *CODE_DEAD)
    for code in (older, last):
        body = {"type": "email_change", "email": CLAIMED, "token": code}
        assert_error(api.post("/verify", body), *CODE_DEAD)
    # Link tokens are too long to guess.
    hashes = [mail.variables["TokenHash"] for mail in mailbox.emails]
    assert api.post("/verify", {"type": "email_change", "token_hash": hashes[0]}).status_code == 200


def test_code_is_matched_within_audience(api: Api) -> None:
    mine = make_anonymous_user().user
    User.objects.filter(id=mine.id).update(email_change=CLAIMED)
    code = make_one_time_token(mine, TokenType.EMAIL_CHANGE_NEW, identifier=CLAIMED).code
    other = make_anonymous_user("staff").user
    make_one_time_token(other, TokenType.EMAIL_CHANGE_NEW, identifier=CLAIMED)
    response = api.post("/verify", {"type": "email_change", "email": CLAIMED, "token": code})
    assert (response.status_code, response.json()["user"]["id"]) == (200, str(mine.id))


def test_secrets_of_other_purposes_are_not_counted(api: Api) -> None:
    user = make_user(email=EMAIL)
    code = make_one_time_token(user, at=timezone.now() - timedelta(hours=1)).code
    make_one_time_token(user, TokenType.REAUTHENTICATION)
    other = make_one_time_token(user, TokenType.CONFIRMATION).code
    if code != other:
        assert_error(api.post("/verify", {"type": "signup", "email": EMAIL, "token": code}), *CODE_DEAD)
    assert api.post("/verify", {"type": "email", "email": EMAIL, "token": code}).status_code == 200


def by_code(api: Api, mailbox: Mailbox) -> Callable[[str], ApiResponse]:
    """Signing in by a mailed code, all secrets of the user at once."""
    assert api.post("/otp", {"email": make_user(email=EMAIL).email}).status_code == 200
    return lambda code: Api().post("/verify", {"type": "email", "email": EMAIL, "token": code})


def test_wrong_codes_do_not_invalidate_the_link(api: Api, mailbox: Mailbox) -> None:
    guess = by_code(api, mailbox)
    variables = mailbox.emails[-1].variables
    for _ in range(LIMIT + 1):
        assert_error(guess(other_than(variables["Token"])), *CODE_DEAD)
    assert api.post("/verify", {"type": "email", "token_hash": variables["TokenHash"]}).status_code == 200
