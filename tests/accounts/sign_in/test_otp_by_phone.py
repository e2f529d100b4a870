"""POST /otp with a phone: SMS codes, new accounts, and answers that reveal no account."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Rate, Secret, Twilio, Vonage
from authsvc.messaging import SmsType
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_user
from tests.observations import SECURITY_HEADERS, assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

PHONE = "15551234567"
NO_ACCOUNT = (422, "otp_disabled", "Signups not allowed for otp")
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
SOON = "For security purposes, you can only request this after 59 seconds."
REQUESTED = ("user_recovery_requested", {"channel": "sms"})
CHANNEL_INVALID = (
    "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio Verify"
    " is used as the provider."
)


@pytest.fixture(autouse=True)
def numbers_enabled(auth_config: ChangeConfig) -> None:
    vonage = Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")
    auth_config(signup={"phone_enabled": True}, sms={"provider": "vonage", "vonage": vonage})


def make_phone_user(**columns: Any) -> User:
    return make_user(email="", **{"phone": PHONE, "phone_confirmed_at": timezone.now(), **columns})


def message_id(response: ApiResponse) -> str:
    assert response.status_code == 200, response.content
    body: dict[str, str] = response.json()
    assert list(body) == ["message_id"]
    return body["message_id"]


def confirm(api: Api, code: str) -> ApiResponse:
    return api.post("/verify", {"type": "sms", "phone": PHONE, "token": code})


def test_a_confirmed_phone_gets_a_code_that_signs_in(api: Api, mailbox: Mailbox) -> None:
    user = make_phone_user()
    sent_id = message_id(api.post("/otp", {"phone": "+1 555 1234567"}))

    (text,) = mailbox.sms
    assert (str(text.id), text.type, text.to, text.channel) == (sent_id, SmsType.CONFIRMATION, PHONE, "sms")
    row, after = OneTimeToken.objects.get(), User.objects.get()
    assert (row.token_type, row.relates_to) == (TokenType.CONFIRMATION, PHONE)
    assert row.created_at == after.confirmation_sent_at == after.updated_at
    assert (after.password, after.recovery_sent_at) == (user.password, None)
    assert audit_trail() == [REQUESTED]

    session = confirm(api, text.variables["Code"]).json()
    assert session["user"]["id"] == str(user.id)
    assert AmrClaim.objects.get().authentication_method == "otp"
    assert audit_trail()[1:] == [("user_signedup", {"provider": "phone"})]
    body = {"phone": PHONE, "password": PASSWORD}
    assert api.post("/token?grant_type=password", body).status_code == 200


@pytest.mark.parametrize("further", [{}, {"create_user": True}, {"create_user": None, "data": None, "channel": None}])
def test_a_new_phone_is_signed_up(api: Api, mailbox: Mailbox, further: dict[str, Any]) -> None:
    sent_id = message_id(api.post("/otp", {"phone": PHONE, **further}))
    user = User.objects.get()
    assert (user.phone, user.phone_confirmed_at, user.email) == (PHONE, None, None)
    assert Identity.objects.get().provider == "phone"
    assert audit_trail() == [("user_confirmation_requested", {"provider": "phone"})]
    (text,) = mailbox.sms
    assert str(text.id) == sent_id
    assert confirm(api, text.variables["Code"]).status_code == 200
    assert User.objects.get().phone_confirmed_at is not None


def test_the_data_of_a_new_account_is_stored(api: Api) -> None:
    message_id(api.post("/otp", {"phone": PHONE, "data": {"plan": "free", "phone": "x", "email": "me@example.com"}}))
    metadata = User.objects.get().raw_user_meta_data or {}
    assert metadata["plan"] == "free"
    assert Identity.objects.get().email is None


def test_challenge_is_validated_without_starting_flow(api: Api) -> None:
    response = api.post("/otp", {"phone": PHONE, "code_challenge": CHALLENGE})
    text = "PKCE flow requires code_challenge_method and code_challenge"
    assert_error(response, 400, "validation_failed", text)
    message_id(api.post("/otp", {"phone": PHONE, "code_challenge": CHALLENGE, "code_challenge_method": "s256"}))
    assert not FlowState.objects.exists()
    assert not OneTimeToken.objects.get().token_hash.startswith("pkce_")


@pytest.mark.parametrize("columns", [None, {}, {"phone_confirmed_at": None}, {"audience": "staff"}])
def test_the_response_has_the_same_form_for_every_phone(
    api: Api, mailbox: Mailbox, columns: dict[str, Any] | None
) -> None:
    if columns is not None:
        make_phone_user(**columns)
    first = api.post("/otp", {"phone": PHONE})
    sent_id = UUID(message_id(first))
    assert (sent_id.version, str(sent_id)) == (4, first.json()["message_id"])
    assert {**first.headers} == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Vary": "Origin",
        **SECURITY_HEADERS,
    }
    assert len(mailbox.sms) == (0 if columns == {"audience": "staff"} else 1)
    before = table_contents()
    second = api.post("/otp", {"phone": PHONE})
    assert_error(second, 429, "over_sms_send_rate_limit", SOON)
    assert int(second.headers["Retry-After"]) in range(30, 60)
    assert table_contents() == before
    backdate_rate_limits(timedelta(seconds=60))
    assert message_id(api.post("/otp", {"phone": PHONE})) != str(sent_id)


def test_a_ban_is_reported_only_with_the_code(api: Api, mailbox: Mailbox) -> None:
    make_phone_user(banned_until=timezone.now() + timedelta(days=1))
    message_id(api.post("/otp", {"phone": PHONE}))
    assert_error(confirm(api, "wrong"), *CODE_DEAD)
    assert_error(confirm(api, mailbox.sms[0].variables["Code"]), 403, "user_banned", "User is banned")


def test_a_phone_with_a_test_code_gets_no_sms(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(sms={"provider": "", "test_codes": {PHONE: "123456"}}, limits={"sms_sent": Rate(events=0)})
    assert message_id(api.post("/otp", {"phone": PHONE})) == "test-otp"
    assert_error(api.post("/otp", {"phone": PHONE}), 429, "over_sms_send_rate_limit", SOON)
    assert confirm(api, "123456").status_code == 200
    backdate_rate_limits(timedelta(minutes=1))
    assert message_id(api.post("/otp", {"phone": PHONE})) == "test-otp"
    assert mailbox.sms == []


def test_new_code_invalidates_previous_code(api: Api, mailbox: Mailbox) -> None:
    make_phone_user()
    for _ in range(2):
        message_id(api.post("/otp", {"phone": PHONE}))
        backdate_rate_limits(timedelta(minutes=1))
    old, new = (text.variables["Code"] for text in mailbox.sms)
    if old != new:
        assert_error(confirm(api, old), *CODE_DEAD)
    assert confirm(api, new).status_code == 200
    assert OneTimeToken.objects.count() == 0


def test_a_channel_of_the_gateway_is_used(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    account = Twilio(account_sid="AC1", auth_token=Secret("t"), message_service_sid="MG1")
    auth_config(sms={"provider": "twilio", "twilio": account})
    make_phone_user()
    message_id(api.post("/otp", {"phone": PHONE, "channel": "whatsapp"}))
    assert mailbox.sms[0].channel == "whatsapp"
    assert audit_trail() == [("user_recovery_requested", {"channel": "whatsapp"})]


# Auto-confirm


def test_under_auto_confirm_a_new_phone_is_confirmed_and_gets_an_sms(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    auth_config(sms={"autoconfirm": True})
    sent_id = message_id(api.post("/otp", {"phone": PHONE}))
    user = User.objects.get()
    assert user.phone_confirmed_at is not None
    assert user.last_sign_in_at is None
    assert not Session.objects.exists()
    assert audit_trail() == [("user_signedup", {"provider": "phone", "channel": "sms"}), REQUESTED]
    (text,) = mailbox.sms
    assert str(text.id) == sent_id
    assert confirm(api, text.variables["Code"]).status_code == 200


@pytest.mark.parametrize("what", ["gateway", "interval"])
def test_under_auto_confirm_an_undeliverable_message_creates_no_account(
    api: Api, auth_config: ChangeConfig, what: str
) -> None:
    auth_config(sms={"autoconfirm": True, "provider": "" if what == "gateway" else "vonage"})
    if what == "interval":
        message_id(api.post("/otp", {"phone": PHONE}))
        User.objects.all().delete()
    before = table_contents()
    assert api.post("/otp", {"phone": PHONE}).status_code == (500 if what == "gateway" else 429)
    assert table_contents() == before


# Errors


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        ({"phone_enabled": False}, {"phone": "x", "channel": "x", "create_user": False}, NO_ACCOUNT),
        ({"disabled": True}, {"phone": PHONE, "channel": "x", "create_user": False}, NO_ACCOUNT),
        (
            {"phone_enabled": False, "disabled": True},
            {"phone": "x", "channel": "x"},
            (400, "phone_provider_disabled", "Unsupported phone provider"),
        ),
        (
            {"disabled": True},
            {"phone": "x", "channel": "x"},
            (400, "validation_failed", "Invalid phone number format (E.164 required)"),
        ),
        ({"disabled": True}, {"phone": PHONE, "channel": "x"}, (400, "validation_failed", CHANNEL_INVALID)),
        ({"disabled": True}, {"phone": PHONE}, (422, "signup_disabled", "Signups not allowed for this instance")),
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
    auth_config(signup=config, sms={"provider": ""})
    before = table_contents()
    assert_error(api.post("/otp", body), *refusal)
    assert table_contents() == before
    assert mailbox.sms == []


@pytest.mark.parametrize("disabled", [False, True])
def test_a_confirmed_phone_needs_no_permission_to_sign_up(api: Api, auth_config: ChangeConfig, disabled: bool) -> None:
    make_phone_user()
    auth_config(signup={"disabled": disabled})
    message_id(api.post("/otp", {"phone": PHONE, "create_user": not disabled}))


def test_an_unconfirmed_phone_counts_as_existing(api: Api, mailbox: Mailbox) -> None:
    make_phone_user(phone_confirmed_at=None)
    message_id(api.post("/otp", {"phone": PHONE, "create_user": False}))
    assert len(mailbox.sms) == 1
    assert User.objects.count() == 1


@pytest.mark.parametrize("account", ["unknown", "unconfirmed", "confirmed"])
@pytest.mark.parametrize("what", ["quota", "gateway"])
def test_send_errors_apply_to_every_phone_equally(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, account: str, what: str
) -> None:
    if account != "unknown":
        make_phone_user(**({} if account == "confirmed" else {"phone_confirmed_at": None}))
    auth_config(**({"limits": {"sms_sent": Rate(events=0)}} if what == "quota" else {"sms": {"provider": ""}}))
    before = table_contents()
    response = api.post("/otp", {"phone": PHONE})
    if what == "quota":
        assert_error(response, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    else:
        assert_error(
            response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
        )
    assert table_contents() == before
    assert mailbox.sms == []


def test_sign_up_does_not_delay_code(api: Api) -> None:
    assert api.post("/signup", {"phone": PHONE, "password": PASSWORD}).status_code == 200
    message_id(api.post("/otp", {"phone": PHONE}))
    assert_error(api.post("/otp", {"phone": PHONE}), 429, "over_sms_send_rate_limit", SOON)
