"""Concurrent uses of one one-time token, and its use while a new one is sent."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from accounts.models import User
from authsvc.conf import Rate
from tests import factories
from tests.concurrency import run_concurrently, status_counts
from tests.conftest import Api, ChangeConfig
from tests.tokens.token_requests import audited_actions, verification_result
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]


@pytest.mark.parametrize(("links", "browsers", "codes"), [(20, 0, 0), (0, 20, 0), (0, 0, 20), (7, 7, 6)])
@pytest.mark.parametrize("type", ["recovery", "signup", "email"])
def test_concurrent_redemptions_of_one_email_start_one_session(
    type: str, links: int, browsers: int, codes: int, api: Api
) -> None:
    user = factories.make_user(confirmed=type == "recovery")
    token_type = TokenType.RECOVERY if type == "recovery" else TokenType.CONFIRMATION
    secret = factories.make_one_time_token(user, token_type)

    responses = run_concurrently(
        *[lambda: api.post("/verify", {"type": type, "token_hash": secret.link_token})] * links,
        *[lambda: api.get(f"/verify?type={type}&token={secret.link_token}")] * browsers,
        *[lambda: api.post("/verify", {"type": type, "email": user.email, "token": secret.code})] * codes,
    )

    assert Session.objects.count() == 1
    assert not OneTimeToken.objects.exists()
    assert Counter(verification_result(response) for response in responses) == {"session": 1, "otp_expired": 19}
    assert audited_actions(user) == ["login" if type == "recovery" else "user_signedup"]


def test_concurrent_wrong_codes_are_all_counted(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 20})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    wrong_code = f"{(int(secret.code) + 1) % 1_000_000:06d}"

    responses = run_concurrently(
        *[lambda: api.post("/verify", {"type": "recovery", "email": user.email, "token": wrong_code})] * 20
    )

    assert Counter(verification_result(response) for response in responses) == {"otp_expired": 20}
    assert OneTimeToken.objects.get().attempts == 20
    assert (
        verification_result(api.post("/verify", {"type": "recovery", "email": user.email, "token": secret.code}))
        == "otp_expired"
    )
    assert verification_result(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token})) == "session"


def test_redemption_during_new_email_request_succeeds_or_fails_cleanly(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    user = factories.make_user()
    for _ in range(5):
        secret = factories.make_one_time_token(user)
        *requests, redemption = run_concurrently(
            *[lambda: api.post("/recover", {"email": user.email})] * 4,
            lambda: api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert status_counts(requests).keys() <= {200, 429}
        assert verification_result(redemption) in ("session", "otp_expired")


def test_redemption_during_repeated_sign_up_succeeds_or_fails_cleanly(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)}, limits={"email_sent": Rate(events=1000)})
    for _ in range(10):
        user = factories.make_user(confirmed=False)
        secret = factories.make_one_time_token(user, TokenType.CONFIRMATION)
        *requests, redemption = run_concurrently(
            *[lambda: api.post("/otp", {"email": user.email})] * 8,  # noqa: B023
            lambda: api.post("/verify", {"type": "signup", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert status_counts(requests).keys() <= {200, 429}
        assert verification_result(redemption) in ("session", "otp_expired")


def test_sign_up_during_confirmation_does_not_change_the_password(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)}, limits={"email_sent": Rate(events=1000)})
    for _ in range(10):
        user = factories.make_user(confirmed=False)
        secret = factories.make_one_time_token(user, TokenType.CONFIRMATION)
        body = {"email": user.email, "password": "another password"}
        sign_up, redemption = run_concurrently(
            lambda: api.post("/signup", body),  # noqa: B023
            lambda: api.post("/verify", {"type": "signup", "token_hash": secret.link_token}),  # noqa: B023
        )
        assert sign_up.status_code == 200
        # A repeated sign-up that came first would have ended the link.
        if verification_result(redemption) == "session":
            assert User.objects.get(id=user.id).password == user.password


@pytest.mark.parametrize("type", ["sms", "phone_change"])
def test_concurrent_redemptions_of_sms_code_start_one_session(api: Api, type: str) -> None:
    phone = "15551234567"
    columns: dict[str, Any] = {"phone" if type == "sms" else "phone_change": phone}
    user = factories.make_user(email="", **columns)
    token_type = TokenType.CONFIRMATION if type == "sms" else TokenType.PHONE_CHANGE
    secret = factories.make_one_time_token(user, token_type, identifier=phone)

    responses = run_concurrently(
        *[lambda: api.post("/verify", {"type": type, "phone": phone, "token": secret.code})] * 20
    )

    assert Counter(verification_result(response) for response in responses) == {
        "session": 1,
        "otp_expired": 19,
    }
    assert Session.objects.count() == 1
    assert not OneTimeToken.objects.exists()
    assert audited_actions(user) == ["user_signedup" if type == "sms" else "user_modified"]
