"""Concurrent changes of email and phone, and concurrent redemptions of one secret."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from authsvc.conf import Secret, Vonage
from authsvc.messaging import EmailType
from tests.accounts.verification.verify_requests import CONFIRMING, PURPOSE, RECOVERING, open_link
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import SignIn, make_flow, make_one_time_token, make_session, make_user
from tests.observations import audit_trail, redirect_fragment
from tokens.models import Session

pytestmark = pytest.mark.django_db(transaction=True)

EMAIL = "user@example.com"
NEW = "new@example.com"
PHONE = "15551234567"


@pytest.fixture
def signed_in() -> SignIn:
    return make_session(make_user(email=EMAIL, at=timezone.now() - timedelta(days=1)))


@pytest.mark.parametrize("further", [{}, {"password": "another one"}])
def test_concurrent_email_changes_send_once(mailbox: Mailbox, signed_in: SignIn, further: dict[str, str]) -> None:
    body = {"email": NEW, **further}
    responses = run_concurrently(*[lambda: Api().put("/user", body, bearer=signed_in.access_token)] * 8)
    assert status_counts(responses) == {200: 1, 429: 7}
    assert [mail.to for mail in mailbox.emails if mail.type == EmailType.EMAIL_CHANGE] == [EMAIL, NEW]
    assert audit_trail().count(("user_modified", None)) == 1


def test_concurrent_phone_changes_send_once(mailbox: Mailbox, auth_config: ChangeConfig, signed_in: SignIn) -> None:
    auth_config(
        signup={"phone_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )
    responses = run_concurrently(*[lambda: Api().put("/user", {"phone": PHONE}, bearer=signed_in.access_token)] * 8)
    assert status_counts(responses) == {200: 1, 429: 7}
    assert {response.json()["error_code"] for response in responses if response.status_code == 429} == {
        "over_sms_send_rate_limit"
    }
    assert len(mailbox.sms) == 1
    assert audit_trail() == [("user_modified", None)]


@pytest.mark.parametrize("pkce", [False, True])
@pytest.mark.parametrize("type", [*CONFIRMING, *RECOVERING])
def test_link_is_redeemed_once(type: str, pkce: bool) -> None:
    user = make_user(email=EMAIL, confirmed=type in RECOVERING)
    token = make_one_time_token(user, PURPOSE[type], pkce=pkce).link_token
    make_flow(user, method="email/signup" if type == "signup" else type, auth_code_issued_at=None)
    responses = run_concurrently(*[lambda: open_link(Api(), token, type)] * 8)
    codes = [
        redirect_fragment(response).get("error_code") for response in responses if "#" in response.headers["Location"]
    ]
    assert codes.count("otp_expired") == 7
    assert Session.objects.count() == (0 if pkce else 1)
    assert len(audit_trail()) == 1


def test_code_is_redeemed_once() -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    body = {"type": "recovery", "email": EMAIL, "token": secret.code}
    responses = run_concurrently(*[lambda: Api().post("/verify", body)] * 8)
    assert status_counts(responses) == {200: 1, 403: 7}
    assert Session.objects.count() == 1
