"""POST /magiclink: sign-in links, and sign-up of new and unconfirmed addresses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc.conf import AuthConfig, Rate
from authsvc.messaging import EmailType
from tests.accounts.response_checks import assert_accepted
from tests.conftest import Api, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_one_time_token, make_user
from tests.observations import SECURITY_HEADERS, assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "s256"}
REQUESTED = ("user_recovery_requested", None)


def test_a_confirmed_address_is_sent_a_link(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, at=timezone.now() - timedelta(days=1))
    assert_accepted(api.post("/magiclink?redirect_to=http://localhost:3000/cb", {"email": "USER@example.com", **PKCE}))

    after = User.objects.get()
    row = OneTimeToken.objects.get()
    assert (row.token_type, row.relates_to, row.user_id) == (TokenType.RECOVERY, EMAIL, user.id)
    assert row.created_at == after.recovery_sent_at == after.updated_at
    assert row.token_hash.startswith("pkce_")
    assert (after.password, after.raw_user_meta_data) == (user.password, user.raw_user_meta_data)
    flow = FlowState.objects.get()
    assert (flow.user_id, flow.provider_type, flow.authentication_method) == (user.id, "magiclink", "magiclink")
    assert (flow.code_challenge, flow.code_challenge_method) == (CHALLENGE, "s256")
    assert audit_trail() == [REQUESTED]
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.user_id) == (EmailType.MAGIC_LINK, EMAIL, user.id)
    assert "&type=magiclink&redirect_to=http://localhost:3000/cb" in mail.variables["ConfirmationURL"]
    assert not Session.objects.exists()


def test_without_challenge_no_flow_is_started(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    assert_accepted(api.post("/magiclink", {"email": EMAIL, "data": {"ignored": 1}}))
    assert not FlowState.objects.exists()
    assert not mailbox.emails[0].variables["TokenHash"].startswith("pkce_")
    assert "ignored" not in (User.objects.get().raw_user_meta_data or {})


def test_a_new_address_is_signed_up(api: Api, mailbox: Mailbox) -> None:
    assert_accepted(api.post("/magiclink", {"email": EMAIL, "data": {"a": 1}, **PKCE}))
    user = User.objects.get()
    assert (user.email, user.email_confirmed_at, user.recovery_sent_at) == (EMAIL, None, None)
    assert user.confirmation_sent_at == user.created_at
    assert user.raw_user_meta_data == {
        "sub": str(user.id), "email": EMAIL, "email_verified": False, "phone_verified": False, "a": 1,
    }  # fmt: skip
    assert user.password == hashing.NO_PASSWORD
    assert [row.token_type for row in OneTimeToken.objects.all()] == [TokenType.CONFIRMATION]
    assert FlowState.objects.get().authentication_method == "email/signup"
    assert audit_trail() == [("user_confirmation_requested", {"provider": "email"})]
    (mail,) = mailbox.emails
    assert mail.type == EmailType.CONFIRMATION
    assert "&type=signup&" in mail.variables["ConfirmationURL"]


def test_an_account_created_by_a_link_has_no_usable_password(api: Api, mailbox: Mailbox) -> None:
    api.post("/magiclink", {"email": EMAIL})
    body = {"type": "signup", "token_hash": mailbox.emails[0].variables["TokenHash"]}
    assert api.post("/verify", body).status_code == 200
    for password in ("", PASSWORD, "x"):
        assert api.post("/token?grant_type=password", {"email": EMAIL, "password": password}).status_code == 400


def test_an_unconfirmed_address_gets_a_confirmation_again(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, data={"a": 1})
    make_one_time_token(user, TokenType.CONFIRMATION)
    before = OneTimeToken.objects.get()
    assert_accepted(api.post("/magiclink", {"email": EMAIL, "data": {"b": 1}}))
    row = OneTimeToken.objects.get()
    assert (row.token_type, row.link_hash != before.link_hash) == (TokenType.CONFIRMATION, True)
    after = User.objects.get()
    # The owner of the address may not have made the first request, so its password and data do not count.
    assert set(after.raw_user_meta_data or {}) == {"sub", "email", "email_verified", "phone_verified"}
    assert after.password == hashing.NO_PASSWORD
    assert (after.recovery_sent_at, after.confirmation_sent_at) == (None, row.created_at)
    assert mailbox.emails[0].type == EmailType.CONFIRMATION


def test_under_auto_confirm_a_new_address_is_confirmed_and_sent_a_link(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(mailer={"autoconfirm": True}, limits={"email_sent": Rate(events=1)})
    other_client = {"X-Forwarded-For": "198.51.100.7"}
    assert_accepted(api.post("/magiclink", {"email": EMAIL, "data": {"a": 1}, **PKCE}))
    user = User.objects.get()
    assert user.email_confirmed_at is not None
    assert (user.raw_user_meta_data or {})["email_verified"] is True
    assert (user.last_sign_in_at, user.confirmation_sent_at) == (None, None)
    assert not Session.objects.exists()
    assert [row.token_type for row in OneTimeToken.objects.all()] == [TokenType.RECOVERY]
    assert FlowState.objects.get().authentication_method == "magiclink"
    assert audit_trail() == [("user_signedup", {"provider": "email"}), REQUESTED]
    assert [mail.type for mail in mailbox.emails] == [EmailType.MAGIC_LINK]
    response = api.post("/magiclink", {"email": "other@example.com"}, headers=other_client)
    assert_error(response, 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert not User.objects.filter(email="other@example.com").exists()


def test_under_auto_confirm_an_unconfirmed_account_loses_the_earlier_password(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    make_user(email=EMAIL, confirmed=False)
    auth_config(mailer={"autoconfirm": True})
    assert_accepted(api.post("/magiclink", {"email": EMAIL}))
    (mail,) = mailbox.emails
    assert mail.type == EmailType.MAGIC_LINK
    assert User.objects.get().email_confirmed_at is None
    body = {"type": "magiclink", "token_hash": mail.variables["TokenHash"]}
    assert api.post("/verify", body).json()["user"]["email_confirmed_at"]
    body = {"email": EMAIL, "password": PASSWORD}
    assert_error(api.post("/token?grant_type=password", body), 400, "invalid_credentials", "Invalid login credentials")


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        (
            {"email_enabled": False, "disabled": True},
            {"email": ""},
            (422, "email_provider_disabled", "Email logins are disabled"),
        ),
        ({"disabled": True}, {}, (422, "validation_failed", "Password recovery requires an email")),
        ({"disabled": True}, {"email": ""}, (422, "validation_failed", "Password recovery requires an email")),
        (
            {"disabled": True},
            {"email": "x"},
            (400, "validation_failed", "Unable to validate email address: invalid format"),
        ),
        (
            {"disabled": True},
            {"email": EMAIL, "code_challenge": CHALLENGE},
            (400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge"),
        ),
        ({"disabled": True}, {"email": EMAIL}, (422, "signup_disabled", "Signups not allowed for this instance")),
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
    auth_config(signup=config)
    before = table_contents()
    assert_error(api.post("/magiclink", body), *refusal)
    assert table_contents() == before
    assert mailbox.emails == []


def test_a_confirmed_address_needs_no_permission_to_sign_up(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    auth_config(signup={"disabled": True})
    assert_accepted(api.post("/magiclink", {"email": EMAIL}))


def test_an_unconfirmed_address_needs_permission_to_sign_up(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL, confirmed=False)
    auth_config(signup={"disabled": True})
    assert_error(
        api.post("/magiclink", {"email": EMAIL}), 422, "signup_disabled", "Signups not allowed for this instance"
    )


@pytest.mark.parametrize("identifier", [{"email": EMAIL}, {"phone": "15551234567"}])
@pytest.mark.parametrize("is_known", [True, False])
def test_data_too_large_for_a_new_account_are_refused_for_every_address(
    api: Api, auth_config: ChangeConfig, identifier: dict[str, Any], is_known: bool
) -> None:
    auth_config(signup={"phone_enabled": True})
    if is_known:
        make_user(**{"email": "", **identifier}, phone_confirmed_at=timezone.now())
    response = api.post("/otp", {**identifier, "data": {"note": "x" * 16_300}})
    text = "User metadata must not be larger than 16384 bytes"
    assert_error(response, 400, "validation_failed", text)
    response = api.post("/otp", {"email": "x" * 20_000})
    assert_error(response, 400, "validation_failed", "An email address is too long")


@pytest.mark.parametrize(
    ("columns", "mails"),
    [
        (None, 1),
        ({}, 1),
        ({"confirmed": False}, 1),
        ({"banned_until": timezone.now() + timedelta(days=1)}, 1),
        ({"is_sso_user": True}, 1),
        ({"audience": "staff"}, 0),
        ({"password": ""}, 1),
    ],
)
@pytest.mark.parametrize("path", ["/magiclink", "/otp"])
def test_the_response_reveals_nothing_about_the_address(
    api: Api, mailbox: Mailbox, path: str, columns: dict[str, Any] | None, mails: int
) -> None:
    if columns is not None:
        make_user(email=EMAIL, **columns)
    first = api.post(path, {"email": EMAIL})
    assert_accepted(first)
    assert {**first.headers} == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Vary": "Origin",
        **SECURITY_HEADERS,
    }
    assert len(mailbox.emails) == mails
    before = table_contents()
    second = api.post(path, {"email": EMAIL.upper()})
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(second, 429, "over_email_send_rate_limit", text)
    assert int(second.headers["Retry-After"]) in range(30, 60)
    assert table_contents() == before
    backdate_rate_limits(timedelta(seconds=60))
    assert_accepted(api.post(path, {"email": EMAIL}))
    assert len(mailbox.emails) == 2 * mails


def test_links_codes_and_recoveries_share_their_interval(api: Api) -> None:
    make_user(email=EMAIL)
    for first in ("/magiclink", "/otp", "/recover"):
        assert_accepted(api.post(first, {"email": EMAIL}))
        for second in ("/magiclink", "/otp", "/recover"):
            assert api.post(second, {"email": EMAIL}).json()["error_code"] == "over_email_send_rate_limit"
        backdate_rate_limits(timedelta(seconds=61))


def test_sign_up_does_not_delay_link(api: Api) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": PASSWORD}).status_code == 200
    assert_accepted(api.post("/magiclink", {"email": EMAIL}))


@pytest.mark.parametrize("account", ["unknown", "confirmed", "unconfirmed"])
def test_email_quota_rejects_every_address_equally(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, account: str
) -> None:
    if account != "unknown":
        make_user(email=EMAIL, confirmed=account == "confirmed")
    auth_config(limits={"email_sent": Rate(events=0)})
    before = table_contents()
    assert_error(
        api.post("/magiclink", {"email": EMAIL}), 429, "over_email_send_rate_limit", "email rate limit exceeded"
    )
    assert table_contents() == before
    assert mailbox.emails == []


@pytest.mark.usefixtures("slow_refill")
def test_requests_of_one_client_are_limited_before_anything_else(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"email_enabled": False})
    for _ in range(30):
        assert api.post("/magiclink", "{").status_code == 400
    assert_error(api.post("/magiclink", "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert api.post("/otp", "{").status_code == 400
    assert api.post("/magiclink", "{", headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 400
