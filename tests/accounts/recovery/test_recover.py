"""POST /recover: recovery emails, and answers that reveal no account."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import AuthConfig, Rate
from authsvc.messaging import EmailType
from tests.accounts.response_checks import assert_accepted
from tests.conftest import Api, Mailbox
from tests.factories import CHALLENGE, make_one_time_token, make_user
from tests.observations import (
    SECURITY_HEADERS,
    assert_error,
    audit_payloads,
    audit_trail,
    backdate_rate_limits,
    table_contents,
)
from tokens.models import FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"


def test_an_account_is_mailed_a_link_and_a_code(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, at=timezone.now() - timedelta(days=1))
    body: dict[str, Any] = {"email": "User@Example.com", "gotrue_meta_security": {}, "code_challenge": None}
    assert_accepted(api.post("/recover?redirect_to=http://localhost:3000/reset", body))

    after = User.objects.get()
    row = OneTimeToken.objects.get()
    assert (row.token_type, row.relates_to, row.user_id) == (TokenType.RECOVERY, EMAIL, user.id)
    assert row.created_at == after.recovery_sent_at == after.updated_at
    assert (after.password, after.email_confirmed_at) == (user.password, user.email_confirmed_at)
    assert audit_trail() == [("user_recovery_requested", None)]
    assert (audit_payloads()[0]["actor_id"], audit_payloads()[0]["log_type"]) == (str(user.id), "user")
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.user_id) == (EmailType.RECOVERY, EMAIL, user.id)
    link = mail.variables["ConfirmationURL"]
    base, target = re.escape("http://127.0.0.1:8081/verify?token="), "http://localhost:3000/reset"
    assert re.fullmatch(rf"{base}[0-9a-f]{{56}}&type=recovery&redirect_to={target}", link)
    assert not FlowState.objects.exists()
    assert not Session.objects.exists()


def test_challenge_starts_flow(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    assert_accepted(
        api.post("/recover", {"email": EMAIL, "code_challenge": CHALLENGE, "code_challenge_method": "s256"})
    )
    flow = FlowState.objects.get()
    assert (flow.user_id, flow.provider_type, flow.authentication_method) == (user.id, "recovery", "recovery")
    assert OneTimeToken.objects.get().token_hash.startswith("pkce_")
    assert "token=pkce_" in mailbox.emails[0].variables["ConfirmationURL"]


@pytest.mark.parametrize(
    ("columns", "mails"),
    [
        (None, 0),
        ({}, 1),
        ({"confirmed": False}, 1),
        ({"banned_until": timezone.now() + timedelta(days=1)}, 1),
        ({"password": ""}, 1),
        ({"is_sso_user": True}, 0),
        ({"audience": "staff"}, 0),
    ],
)
def test_the_response_reveals_nothing_about_the_address(
    api: Api, mailbox: Mailbox, columns: dict[str, Any] | None, mails: int
) -> None:
    if columns is not None:
        make_user(email=EMAIL, **columns)
    before = table_contents()
    first = api.post("/recover", {"email": EMAIL})
    assert_accepted(first)
    assert {**first.headers} == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Vary": "Origin",
        **SECURITY_HEADERS,
    }
    assert len(mailbox.emails) == mails
    assert (table_contents() == before) is (mails == 0)

    before = table_contents()
    second = api.post("/recover", {"email": EMAIL.upper()})
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(second, 429, "over_email_send_rate_limit", text)
    assert {**second.headers} == {
        "Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Origin",
        **SECURITY_HEADERS,
        "X-Sb-Error-Code": "over_email_send_rate_limit", "Retry-After": "59",
    }  # fmt: skip
    assert table_contents() == before
    backdate_rate_limits(timedelta(seconds=58))
    assert api.post("/recover", {"email": EMAIL}).status_code == 429
    backdate_rate_limits(timedelta(minutes=20))
    assert_accepted(api.post("/recover", {"email": EMAIL}))
    assert len(mailbox.emails) == 2 * mails


def test_interval_is_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=5)})
    assert_accepted(api.post("/recover", {"email": EMAIL}))
    text = "For security purposes, you can only request this after 4 seconds."
    assert_error(api.post("/recover", {"email": EMAIL}), 429, "over_email_send_rate_limit", text)


def test_an_unconfirmed_account_is_confirmed_by_its_recovery(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL, confirmed=False)
    api.post("/recover", {"email": EMAIL})
    body = {"type": "recovery", "email": EMAIL, "token": mailbox.emails[0].variables["Token"]}
    assert "email_confirmed_at" in api.post("/verify", body).json()["user"]


def test_two_requests_leave_one_secret(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    make_one_time_token(user, TokenType.REAUTHENTICATION)
    for _ in range(2):
        assert_accepted(api.post("/recover", {"email": EMAIL}))
        backdate_rate_limits(timedelta(minutes=2))
    rows = OneTimeToken.objects.values_list("token_type", flat=True)
    assert sorted(rows) == ["reauthentication_token", "recovery_token"]
    first, second = (mail.variables["TokenHash"] for mail in mailbox.emails)
    assert api.post("/verify", {"type": "recovery", "token_hash": first}).status_code == 403
    assert api.post("/verify", {"type": "recovery", "token_hash": second}).status_code == 200


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        ({"email_enabled": False}, {}, (400, "email_provider_disabled", "Email logins are disabled")),
        ({}, {}, (400, "validation_failed", "Password recovery requires an email")),
        ({}, {"email": ""}, (400, "validation_failed", "Password recovery requires an email")),
        ({}, {"email": "x"}, (400, "validation_failed", "Unable to validate email address: invalid format")),
        ({}, {"email": "x" * 255 + "@b.co"}, (400, "validation_failed", "An email address is too long")),
        (
            {},
            {"email": EMAIL, "code_challenge_method": "s256"},
            (400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge"),
        ),
        (
            {},
            {"email": EMAIL, "code_challenge": "x", "code_challenge_method": "s256"},
            (400, "validation_failed", "code challenge has to be between 43 and 128 characters"),
        ),
    ],
)
def test_errors_have_documented_order_and_change_nothing(
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    config: dict[str, Any],
    body: dict[str, Any],
    refusal: tuple[int, str, str],
) -> None:
    make_user(email=EMAIL)
    auth_config(signup=config)
    before = table_contents()
    assert_error(api.post("/recover", body), *refusal)
    assert table_contents() == before
    assert mailbox.emails == []
    auth_config(signup={"email_enabled": True})
    assert_accepted(api.post("/recover", {"email": EMAIL}))  # malformed requests do not start the interval


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_zero_quota_rejects_email(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, autoconfirm: bool) -> None:
    make_user(email=EMAIL)
    auth_config(limits={"email_sent": Rate(events=0)}, mailer={"autoconfirm": autoconfirm})
    before = table_contents()
    assert_error(api.post("/recover", {"email": EMAIL}), 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before
    assert mailbox.emails == []


def test_the_quota_is_shared_by_all_kinds_of_email(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    auth_config(limits={"email_sent": Rate(events=2)})
    assert_accepted(api.post("/recover", {"email": EMAIL}))
    assert_accepted(api.post("/magiclink", {"email": "new@example.com"}, headers={"X-Forwarded-For": "198.51.100.7"}))
    response = api.post("/signup", {"email": "other@example.com", "password": "password"})
    assert_error(response, 429, "over_email_send_rate_limit", "email rate limit exceeded")


def test_requests_of_one_client_are_limited_before_anything_else(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"email_enabled": False})
    for _ in range(30):
        assert api.post("/recover", {}).status_code == 400
    response = api.post("/recover", "{")
    assert_error(response, 429, "over_request_rate_limit", "Request rate limit reached")
    assert int(response.headers["Retry-After"]) in range(1, 11)


def test_an_exhausted_quota_reveals_nothing_about_the_address(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    make_user(email="unconfirmed@example.com", confirmed=False)
    auth_config(limits={"email_sent": Rate(events=0)})
    for path, body in (
        ("/recover", {"email": EMAIL}),
        ("/resend", {"type": "signup", "email": "unconfirmed@example.com"}),
    ):
        known = api.post(path, body)
        unknown = api.post(path, {**body, "email": "unknown@example.com"})
        assert (known.status_code, list(known.json())) == (unknown.status_code, list(unknown.json()))
