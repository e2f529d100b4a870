"""POST /otp with an email: as /magiclink, with `create_user`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from accounts.models import User
from authsvc.conf import AuthConfig
from authsvc.messaging import EmailType
from tests.conftest import Api, Mailbox
from tests.factories import CHALLENGE, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import FlowState, OneTimeToken, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PHONE = "15551234567"
NO_ACCOUNT = (422, "otp_disabled", "Signups not allowed for otp")


@pytest.mark.parametrize("create_user", [True, None])
def test_a_new_address_is_signed_up(api: Api, mailbox: Mailbox, create_user: bool | None) -> None:
    body = {"email": EMAIL, "create_user": create_user, "data": {"a": 1}, "gotrue_meta_security": {}}
    response = api.post("/otp?redirect_to=http://localhost:3000/cb", body)
    assert (response.status_code, response.json()) == (200, {})
    user = User.objects.get()
    assert (user.raw_user_meta_data or {})["a"] == 1
    assert [row.token_type for row in OneTimeToken.objects.all()] == [TokenType.CONFIRMATION]
    assert mailbox.emails[0].type == EmailType.CONFIRMATION
    assert mailbox.emails[0].variables["RedirectTo"] == "http://localhost:3000/cb"


def test_an_address_that_stays_unconfirmed_gets_confirmations_only(api: Api, mailbox: Mailbox) -> None:
    for _ in range(2):
        assert api.post("/otp", {"email": EMAIL}).status_code == 200
        backdate_rate_limits(timedelta(minutes=2))
    assert [row.token_type for row in OneTimeToken.objects.all()] == [TokenType.CONFIRMATION]
    assert [mail.type for mail in mailbox.emails] == [EmailType.CONFIRMATION] * 2
    assert User.objects.get().recovery_sent_at is None


@pytest.mark.parametrize("create_user", [True, False])
def test_a_confirmed_address_is_sent_a_link(api: Api, mailbox: Mailbox, create_user: bool) -> None:
    make_user(email=EMAIL)
    body = {"email": EMAIL, "create_user": create_user, "code_challenge": CHALLENGE, "code_challenge_method": "plain"}
    response = api.post("/otp", body)
    assert (response.status_code, response.json()) == (200, {})
    assert [row.token_type for row in OneTimeToken.objects.all()] == [TokenType.RECOVERY]
    assert FlowState.objects.get().authentication_method == "magiclink"
    assert mailbox.emails[0].type == EmailType.MAGIC_LINK
    assert audit_trail() == [("user_recovery_requested", None)]


def test_a_mailed_code_signs_in(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/otp", {"email": EMAIL})
    body = {"type": "email", "email": EMAIL, "token": mailbox.emails[0].variables["Token"]}
    assert api.post("/verify", body).status_code == 200


def test_an_unconfirmed_account_exists_already(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL, confirmed=False)
    assert api.post("/otp", {"email": EMAIL, "create_user": False}).status_code == 200
    assert mailbox.emails[0].type == EmailType.CONFIRMATION
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        (
            {"disabled": True},
            {"email": "x", "phone": "x", "channel": "x", "code_challenge": "x", "create_user": False},
            (400, "validation_failed", "Only an email address or phone number should be provided"),
        ),
        (
            {"disabled": True},
            {"email": "x", "channel": "sms", "code_challenge": "x", "create_user": False},
            (400, "validation_failed", "Channel should only be specified with Phone OTP"),
        ),
        (
            {"disabled": True},
            {"email": "x", "code_challenge": "x", "create_user": False},
            (400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge"),
        ),
        ({"email_enabled": False}, {"email": "x", "create_user": False}, NO_ACCOUNT),
        ({"disabled": True}, {"email": EMAIL, "create_user": False}, NO_ACCOUNT),
        (
            {"email_enabled": False},
            {"email": "x"},
            (422, "email_provider_disabled", "Email logins are disabled"),
        ),
        (
            {"disabled": True},
            {"email": "x"},
            (400, "validation_failed", "Unable to validate email address: invalid format"),
        ),
        ({"disabled": True}, {"email": EMAIL}, (422, "signup_disabled", "Signups not allowed for this instance")),
        ({}, {"phone": "x"}, (400, "phone_provider_disabled", "Unsupported phone provider")),
        (
            {"phone_enabled": True},
            {"phone": "x", "channel": "x"},
            (400, "validation_failed", "Invalid phone number format (E.164 required)"),
        ),
        ({}, {}, (400, "validation_failed", "One of email or phone must be set")),
        ({}, "null", (400, "validation_failed", "One of email or phone must be set")),
        ({}, {"create_user": True, "channel": "sms"}, (400, "validation_failed", "One of email or phone must be set")),
    ],
)
def test_errors_have_documented_order_and_change_nothing(
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    config: dict[str, Any],
    body: Any,
    refusal: tuple[int, str, str],
) -> None:
    auth_config(signup=config)
    before = table_contents()
    assert_error(api.post("/otp", body), *refusal)
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])


def test_the_channel_of_a_phone_is_checked(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    response = api.post("/otp", {"phone": PHONE, "channel": "pigeon"})
    assert response.status_code == 400
    assert response.json()["msg"].startswith("Invalid channel, supported values are 'sms' or 'whatsapp'.")


def test_without_a_gateway_a_phone_gets_a_server_error(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    response = api.post("/otp", {"phone": PHONE})
    assert_error(
        response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
    )


@pytest.mark.usefixtures("slow_refill")
def test_requests_of_one_client_are_limited_before_anything_else(api: Api) -> None:
    for _ in range(30):
        assert api.post("/otp", "{").status_code == 400
    assert_error(api.post("/otp", "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
