"""POST /resend: messages are sent again; the response has an id even when nothing is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import AuthConfig, Rate, Secret, Vonage
from authsvc.messaging import EmailType, SmsType
from tests.conftest import Api, ApiResponse, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_one_time_token, make_session, make_user
from tests.observations import SECURITY_HEADERS, assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import FlowState, OneTimeToken, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PHONE = "15551234567"
AGAIN = {"type": "signup", "email": EMAIL}
NEW = "new@example.com"
GATEWAY = {"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")}


def message_id(response: ApiResponse) -> UUID:
    assert response.status_code == 200, response.content
    body = response.json()
    assert list(body) == ["message_id"]
    sent_id = UUID(body["message_id"])
    assert (str(sent_id), sent_id.version) == (body["message_id"], 4)
    return sent_id


def test_confirmation_is_resent_to_unconfirmed_address(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, data={"a": 1}, at=timezone.now() - timedelta(hours=1))
    make_one_time_token(user, TokenType.CONFIRMATION)
    former = OneTimeToken.objects.get()
    body = {**AGAIN, "email": "USER@example.com", "options": {}}
    sent_id = message_id(api.post("/resend?redirect_to=http://localhost:3000/cb", body))

    (mail,) = mailbox.emails
    assert (mail.id, mail.type, mail.to) == (sent_id, EmailType.CONFIRMATION, EMAIL)
    assert mail.variables["RedirectTo"] == "http://localhost:3000/cb"
    row, after = OneTimeToken.objects.get(), User.objects.get()
    assert row.link_hash != former.link_hash
    assert row.created_at == after.confirmation_sent_at == after.updated_at
    assert (after.password, after.raw_user_meta_data) == (user.password, user.raw_user_meta_data)
    assert audit_trail() == [("user_confirmation_requested", None)]
    assert api.post("/verify", {"type": "signup", "token_hash": mail.variables["TokenHash"]}).status_code == 200


def test_challenge_starts_flow(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    message_id(api.post("/resend", {**AGAIN, "code_challenge": CHALLENGE, "code_challenge_method": "S256"}))
    flow = FlowState.objects.get()
    assert (flow.user_id, flow.provider_type, flow.authentication_method) == (user.id, "email/signup", "email/signup")
    assert OneTimeToken.objects.get().token_hash.startswith("pkce_")
    assert mailbox.emails[0].variables["TokenHash"].startswith("pkce_")


@pytest.mark.parametrize(
    ("columns", "mails"),
    [
        (None, 0),
        ({}, 0),
        ({"confirmed": False}, 1),
        ({"confirmed": False, "banned_until": timezone.now() + timedelta(days=1)}, 1),
        ({"banned_until": timezone.now() + timedelta(days=1)}, 0),
        ({"confirmed": False, "is_sso_user": True}, 0),
        ({"confirmed": False, "audience": "staff"}, 0),
    ],
)
def test_the_response_reveals_nothing_about_the_address(
    api: Api, mailbox: Mailbox, columns: dict[str, Any] | None, mails: int
) -> None:
    if columns is not None:
        make_user(email=EMAIL, **columns)
    before = table_contents()
    first = api.post("/resend", AGAIN)
    message_id(first)
    assert {**first.headers} == {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Vary": "Origin",
        **SECURITY_HEADERS,
    }
    assert len(mailbox.emails) == mails
    assert (table_contents() == before) is (mails == 0)

    before = table_contents()
    second = api.post("/resend", {**AGAIN, "email": EMAIL.upper()})
    text = "For security purposes, you can only request this after 899 seconds."
    assert_error(second, 429, "over_email_send_rate_limit", text)
    assert int(second.headers["Retry-After"]) in range(870, 900)
    assert table_contents() == before
    backdate_rate_limits(timedelta(minutes=15))
    message_id(api.post("/resend", AGAIN))
    assert len(mailbox.emails) == 2 * mails


def test_a_sign_up_and_its_repetition_share_an_interval(api: Api, mailbox: Mailbox) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": PASSWORD}).status_code == 200
    assert api.post("/resend", AGAIN).status_code == 429
    backdate_rate_limits(timedelta(minutes=15))
    first = message_id(api.post("/resend", AGAIN))
    assert api.post("/signup", {"email": EMAIL, "password": PASSWORD}).status_code == 429
    assert [mail.id for mail in mailbox.emails][1:] == [first]


def test_message_ids_of_unsent_messages_differ(api: Api) -> None:
    sent_id = set()
    for _ in range(3):
        sent_id.add(message_id(api.post("/resend", AGAIN)))
        backdate_rate_limits(timedelta(hours=1))
    assert len(sent_id) == 3


@pytest.mark.parametrize("type", ["email_change", "phone_change"])
@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_without_a_pending_change_nothing_is_sent(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, type: str, known_by: str
) -> None:
    auth_config(signup={"phone_enabled": True}, sms=GATEWAY)
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    before = table_contents()
    body = {"type": type, known_by: EMAIL if known_by == "email" else f"+{PHONE}"}
    message_id(api.post("/resend", body))
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])
    sent_by = type.replace("phone", "sms").removesuffix("_change")
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.post("/resend", body), 429, f"over_{sent_by}_send_rate_limit", text)


BAD_TYPE = (400, "validation_failed", "Missing one of these types: signup, email_change, sms, phone_change")


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        *(
            ({}, {"type": type, "email": "x", "phone": "x", "code_challenge": "x"}, BAD_TYPE)
            for type in (None, "", "x", "recovery", "magiclink", "SIGNUP", "signup ")
        ),
        *(
            (
                {"email_enabled": False},
                {"type": type, "phone": "x", "code_challenge": "x"},
                (400, "validation_failed", "PKCE flow requires code_challenge_method and code_challenge"),
            )
            for type in ("signup", "email_change")
        ),
        (
            {},
            {"type": "signup", "phone": "x"},
            (400, "validation_failed", "Type provided requires an email address"),
        ),
        ({}, {"type": "sms", "email": "x"}, (400, "validation_failed", "Type provided requires a phone number")),
        ({}, {"type": "sms"}, (400, "validation_failed", "Type provided requires a phone number")),
        *(
            (
                {"email_enabled": False},
                {"type": type, "email": "x", "phone": "x"},
                (400, "validation_failed", "Only an email address or phone number should be provided."),
            )
            for type in ("signup", "email_change", "sms", "phone_change")
        ),
        *(
            (
                {"email_enabled": False},
                {"type": type, "email": "x"},
                (400, "email_provider_disabled", "Email logins are disabled"),
            )
            for type in ("signup", "email_change", "phone_change")
        ),
        (
            {},
            {"type": "signup", "email": "x"},
            (400, "validation_failed", "Unable to validate email address: invalid format"),
        ),
        *(
            (
                {},
                {"type": type, "phone": "x"},
                (400, "phone_provider_disabled", "Phone logins are disabled"),
            )
            for type in ("sms", "phone_change", "email_change")
        ),
        (
            {"phone_enabled": True},
            {"type": "sms", "phone": "x"},
            (400, "validation_failed", "Invalid phone number format (E.164 required)"),
        ),
        *(
            (
                {},
                {"type": type},
                (400, "validation_failed", "Missing email address or phone number"),
            )
            for type in ("email_change", "phone_change")
        ),
        ({}, {"type": "phone_change", "code_challenge": "x", "email": "x" * 256 + "@b.co"}, None),
    ],
)
def test_errors_have_documented_order_and_change_nothing(
    api: Api,
    auth_config: ChangeConfig,
    mailbox: Mailbox,
    config: dict[str, Any],
    body: dict[str, Any],
    refusal: tuple[int, str, str] | None,
) -> None:
    auth_config(signup=config)
    before = table_contents()
    assert_error(api.post("/resend", body), *(refusal or (400, "validation_failed", "An email address is too long")))
    assert table_contents() == before
    assert mailbox.emails == []


def test_quota_rejects_email(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    make_user(email=EMAIL, confirmed=False)
    auth_config(limits={"email_sent": Rate(events=0)})
    before = table_contents()
    assert_error(api.post("/resend", AGAIN), 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before
    assert mailbox.emails == []


@pytest.mark.usefixtures("slow_refill")
def test_requests_of_one_client_are_limited_before_anything_else(api: Api) -> None:
    for _ in range(30):
        assert api.post("/resend", "{").status_code == 400
    assert_error(api.post("/resend", "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert api.post("/recover", "{").status_code == 400


# Email changes


def with_pending_email(**columns: Any) -> User:
    return make_user(email=EMAIL, **{"email_change": NEW, "email_change_confirm_status": 1, **columns})


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_the_emails_of_a_pending_change_are_resent(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, secure: bool, known_by: str
) -> None:
    auth_config(signup={"phone_enabled": True}, mailer={"secure_email_change_enabled": secure})
    user = with_pending_email(phone=PHONE)
    for token_type in (TokenType.EMAIL_CHANGE_CURRENT, TokenType.EMAIL_CHANGE_NEW):
        make_one_time_token(user, token_type)
    former = set(OneTimeToken.objects.values_list("id", flat=True))
    body = {"type": "email_change", known_by: EMAIL if known_by == "email" else PHONE}
    sent_id = message_id(api.post("/resend?redirect_to=http://localhost:3000/cb", body))

    sent = {mail.to: mail for mail in mailbox.emails}
    assert set(sent) == ({EMAIL, NEW} if secure else {NEW})
    assert sent[NEW].id == sent_id
    assert {mail.type for mail in mailbox.emails} == {EmailType.EMAIL_CHANGE}
    assert {mail.variables["RedirectTo"] for mail in mailbox.emails} == {"http://localhost:3000/cb"}
    after = User.objects.get()
    assert (after.email_change, after.email_change_confirm_status) == (NEW, 0)
    rows = OneTimeToken.objects.all()
    assert not former & {row.id for row in rows}
    assert {row.relates_to for row in rows} == set(sent)
    assert {row.created_at for row in rows} == {after.email_change_sent_at}
    assert audit_trail() == []


def test_challenge_starts_flow_of_change(api: Api, mailbox: Mailbox) -> None:
    user = with_pending_email()
    body = {"type": "email_change", "email": EMAIL, "code_challenge": CHALLENGE, "code_challenge_method": "s256"}
    message_id(api.post("/resend", body))
    flow = FlowState.objects.get()
    assert (flow.user_id, flow.authentication_method) == (user.id, "email_change")
    assert all(row.token_hash.startswith("pkce_") for row in OneTimeToken.objects.all())
    assert all(mail.variables["TokenHash"].startswith("pkce_") for mail in mailbox.emails)


def test_the_pending_address_does_not_name_the_account(api: Api, mailbox: Mailbox) -> None:
    with_pending_email()
    message_id(api.post("/resend", {"type": "email_change", "email": NEW}))
    assert mailbox.emails == []


def test_a_pending_address_that_is_taken_by_now_gets_no_link(api: Api, mailbox: Mailbox) -> None:
    with_pending_email()
    owner = make_user(email=NEW)
    message_id(api.post("/resend", {"type": "email_change", "email": EMAIL}))
    sent = {mail.to: mail for mail in mailbox.emails}
    assert (sent[NEW].type, sent[NEW].user_id) == (EmailType.EMAIL_TAKEN, owner.id)


@pytest.mark.parametrize("pending", [True, False])
def test_an_account_identified_by_phone_skips_the_address_checks(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, pending: bool
) -> None:
    auth_config(signup={"phone_enabled": True}, recipients={"authorized_addresses": (EMAIL, NEW)})
    with_pending_email(phone=PHONE, **({} if pending else {"email_change": ""}))
    message_id(api.post("/resend", {"type": "email_change", "phone": PHONE}))
    assert len(mailbox.emails) == (2 if pending else 0)


# SMS


@pytest.fixture
def numbers_enabled(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms=GATEWAY)


@pytest.mark.usefixtures("numbers_enabled")
def test_an_unconfirmed_phone_gets_a_code_again(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email="", phone=PHONE)
    sent_id = message_id(api.post("/resend", {"type": "sms", "phone": f"+{PHONE}"}))
    (text,) = mailbox.sms
    assert (text.id, text.type, text.to, text.channel) == (sent_id, SmsType.CONFIRMATION, PHONE, "sms")
    row, after = OneTimeToken.objects.get(), User.objects.get()
    assert (row.token_type, row.relates_to) == (TokenType.CONFIRMATION, PHONE)
    assert row.created_at == after.confirmation_sent_at
    assert after.password == user.password
    assert audit_trail() == [("user_recovery_requested", None)]
    body = {"type": "sms", "phone": PHONE, "token": text.variables["Code"]}
    assert api.post("/verify", body).status_code == 200


@pytest.mark.usefixtures("numbers_enabled")
@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_the_code_of_a_pending_phone_is_resent(api: Api, mailbox: Mailbox, known_by: str) -> None:
    make_user(email=EMAIL, phone=PHONE, phone_change="15559999999")
    body = {"type": "phone_change", known_by: EMAIL if known_by == "email" else PHONE}
    sent_id = message_id(api.post("/resend", body))
    (text,) = mailbox.sms
    assert (text.id, text.type, text.to) == (sent_id, SmsType.PHONE_CHANGE, "15559999999")
    assert OneTimeToken.objects.get().relates_to == "15559999999"
    assert audit_trail() == []
    body = {"type": "phone_change", "phone": "15559999999", "token": text.variables["Code"]}
    assert api.post("/verify", body).status_code == 200


@pytest.mark.usefixtures("numbers_enabled")
@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        (None, 0),
        ({}, 1),
        ({"phone_confirmed_at": timezone.now()}, 0),
        ({"is_sso_user": True}, 0),
        ({"audience": "staff"}, 0),
        ({"banned_until": timezone.now() + timedelta(days=1)}, 1),
    ],
)
def test_the_response_reveals_nothing_about_the_phone(
    api: Api, mailbox: Mailbox, columns: dict[str, Any] | None, texts: int
) -> None:
    if columns is not None:
        make_user(email="", phone=PHONE, **columns)
    before = table_contents()
    body = {"type": "sms", "phone": PHONE}
    message_id(api.post("/resend", body))
    assert len(mailbox.sms) == texts
    assert (table_contents() == before) is (texts == 0)
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.post("/resend", body), 429, "over_sms_send_rate_limit", text)
    backdate_rate_limits(timedelta(seconds=60))
    message_id(api.post("/resend", body))


@pytest.mark.parametrize("type", ["sms", "phone_change"])
@pytest.mark.parametrize("outstanding", [True, False])
@pytest.mark.parametrize("what", ["quota", "gateway"])
def test_send_errors_apply_to_every_account(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, type: str, outstanding: bool, what: str
) -> None:
    auth_config(signup={"phone_enabled": True}, sms=GATEWAY)
    auth_config(**({"limits": {"sms_sent": Rate(events=0)}} if what == "quota" else {"sms": {"provider": ""}}))
    if outstanding:
        make_user(email="", phone=PHONE, phone_change="15559999999")
    before = table_contents()
    response = api.post("/resend", {"type": type, "phone": PHONE})
    if what == "quota":
        assert_error(response, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    else:
        assert_error(
            response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
        )
    assert table_contents() == before
    assert mailbox.sms == []


@pytest.mark.parametrize("type", ["sms", "phone_change"])
def test_a_phone_with_a_test_code_gets_no_sms(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, type: str) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"test_codes": {PHONE: "123456"}})
    made = make_session(make_user(email="", phone=PHONE, phone_change=PHONE))
    assert api.post("/resend", {"type": type, "phone": PHONE}).json() == {"message_id": "test-otp"}
    assert mailbox.sms == []
    body = {"type": type, "phone": PHONE, "token": "123456"}
    assert api.post("/verify", body).json()["user"]["id"] == str(made.user.id)
