"""Phone change: started by PUT /user, confirmed by an SMS code to the new phone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.api.renderers import rfc3339
from authsvc.conf import Rate, Secret, Twilio, Vonage
from authsvc.messaging import EmailType, SmsType
from authsvc.security import crypto
from tests.accounts.response_checks import read_code, read_session
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, read_success
from tests.factories import PASSWORD, SignIn, backdate, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
OLD = "15550000000"
NEW = "15551234567"
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
TAKEN = (422, "phone_exists", "A user with this phone number has already been registered")
SOON = "For security purposes, you can only request this after 59 seconds."
MODIFIED = ("user_modified", None)


@pytest.fixture(autouse=True)
def gateway(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"phone_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )


@pytest.fixture
def made() -> SignIn:
    """A session of a user with an email identity and no phone."""
    return make_session(make_user(email=EMAIL, at=timezone.now() - timedelta(days=1)))


def put(api: Api, made: SignIn, phone: str = NEW, **further: Any) -> ApiResponse:
    return api.put("/user", {"phone": phone, **further}, bearer=made.access_token)


def ask(api: Api, made: SignIn, phone: str = NEW, **further: Any) -> dict[str, Any]:
    return read_success(put(api, made, phone, **further))


def confirm(api: Api, code: str, phone: str = NEW) -> ApiResponse:
    return api.post("/verify", {"type": "phone_change", "phone": phone, "token": code})


def test_the_new_phone_gets_a_code(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    shown = ask(api, made, "+1 555 1234567")

    assert (shown["phone"], shown["new_phone"]) == ("", NEW)
    assert shown["phone_change_sent_at"] == shown["updated_at"]
    (text,) = mailbox.sms
    assert (text.type, text.to, text.channel, text.user_id) == (SmsType.PHONE_CHANGE, NEW, "sms", made.user.id)
    row = OneTimeToken.objects.get()
    assert (row.token_type, row.relates_to) == (TokenType.PHONE_CHANGE, NEW)
    assert row.token_hash == crypto.hash_code(NEW, read_code(mailbox))
    assert audit_trail() == [MODIFIED]
    assert mailbox.emails == []


def test_the_code_completes_the_change_and_signs_in(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    sent_at = ask(api, made)["phone_change_sent_at"]
    make_one_time_token(made.user)
    session = read_session(confirm(api, read_code(mailbox), f"+{NEW}"))

    shown = session["user"]
    assert (shown["id"], shown["phone"], shown["email"]) == (str(made.user.id), NEW, EMAIL)
    assert "new_phone" not in shown
    assert shown["phone_change_sent_at"] == sent_at
    assert shown["phone_confirmed_at"] == shown["last_sign_in_at"] == shown["updated_at"]
    assert shown["confirmed_at"] == rfc3339(made.user.email_confirmed_at or timezone.now())
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email", "phone"]}
    phone = shown["identities"][1]
    assert (phone["provider"], phone["id"]) == ("phone", shown["id"])
    assert phone["identity_data"] == {
        "sub": shown["id"], "phone": NEW, "phone_verified": True, "email_verified": False,
    }  # fmt: skip
    assert "email" not in phone
    assert not OneTimeToken.objects.exists()
    assert Session.objects.count() == 2
    assert audit_trail() == [MODIFIED] * 2
    # The first phone of an account is a new identity.
    assert [(mail.type, mail.to) for mail in mailbox.emails] == [(EmailType.IDENTITY_LINKED, EMAIL)]
    assert mailbox.emails[0].variables["Provider"] == "phone"
    assert api.get("/user", bearer=session["access_token"]).json() == shown
    assert_error(confirm(api, read_code(mailbox)), *CODE_DEAD)
    body = {"phone": NEW, "password": PASSWORD}
    assert api.post("/token?grant_type=password", body).status_code == 200


def make_number_user(**columns: Any) -> SignIn:
    """A user with a phone identity whose number is OLD."""
    user = make_user(email="", **{"phone": OLD, "phone_confirmed_at": timezone.now(), **columns})
    return make_session(user)


@pytest.mark.parametrize("has_address", [True, False])
def test_another_phone_replaces_the_first(api: Api, mailbox: Mailbox, has_address: bool) -> None:
    made = make_number_user()
    if has_address:
        User.objects.update(email=EMAIL, email_confirmed_at=timezone.now())
    assert ask(api, made)["phone"] == OLD
    shown = read_session(confirm(api, read_code(mailbox)))["user"]
    (identity,) = shown["identities"]
    assert identity["identity_data"] == {
        "sub": shown["id"], "phone": NEW, "phone_verified": True, "email_verified": False,
    }  # fmt: skip
    if has_address:
        (mail,) = mailbox.emails
        assert (mail.type, mail.to) == (EmailType.PHONE_CHANGED, EMAIL)
        assert (mail.variables["OldPhone"], mail.variables["Phone"]) == (OLD, NEW)
    else:
        assert mailbox.emails == []
    for phone, status in ((NEW, 200), (OLD, 400)):
        body = {"phone": phone, "password": PASSWORD}
        assert api.post("/token?grant_type=password", body).status_code == status


@pytest.mark.parametrize("phone", [OLD, f"+{OLD}", "+1 555 0000000"])
def test_current_phone_is_no_change(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, phone: str) -> None:
    made = make_number_user()
    for autoconfirm in (False, True):
        auth_config(sms={"autoconfirm": autoconfirm})
        shown = ask(api, made, phone)
        assert (shown["phone"], "new_phone" in shown) == (OLD, False)
    assert (mailbox.sms, mailbox.emails) == ([], [])


# Auto-confirm


@pytest.mark.parametrize("has_address", [True, False])
def test_auto_confirm_applies_change_immediately(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, has_address: bool
) -> None:
    auth_config(sms={"autoconfirm": True, "provider": ""}, limits={"sms_sent": Rate(events=0)})
    made = make_number_user()
    if has_address:
        User.objects.update(email=EMAIL, email_confirmed_at=timezone.now())
    make_one_time_token(made.user)
    shown = ask(api, made)
    assert (shown["phone"], "new_phone" in shown) == (NEW, False)
    assert shown["phone_confirmed_at"] == shown["updated_at"]
    assert "phone_change_sent_at" not in shown
    assert not OneTimeToken.objects.exists()
    assert mailbox.sms == []
    assert [mail.type for mail in mailbox.emails] == ([EmailType.PHONE_CHANGED] if has_address else [])
    assert audit_trail() == [MODIFIED]


def test_an_autoconfirmed_phone_does_not_invalidate_the_link_sent_with_it(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    auth_config(sms={"autoconfirm": True}, mailer={"secure_email_change_enabled": False})
    shown = ask(api, made, email="new@example.com")
    assert (shown["phone"], shown["new_email"]) == (NEW, "new@example.com")
    mail = mailbox.emails[-1]
    assert (mail.type, mail.to) == (EmailType.EMAIL_CHANGE, "new@example.com")
    response = api.post("/verify", {"type": "email_change", "token_hash": mail.variables["TokenHash"]})
    assert (response.status_code, response.json()["user"]["phone"]) == (200, NEW)
    assert response.json()["user"]["app_metadata"]["providers"] == ["email", "phone"]


@pytest.mark.parametrize("first", ["email", "phone"])
def test_completing_one_of_two_changes_leaves_the_code_of_the_other(
    first: str, api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    ask(api, made, email="new@example.com")
    make_one_time_token(made.user, TokenType.RECOVERY)
    changes = {
        "phone": {"type": "phone_change", "phone": NEW, "token": read_code(mailbox)},
        "email": {"type": "email_change", "token_hash": mailbox.emails[-1].variables["TokenHash"]},
    }
    assert api.post("/verify", changes.pop(first)).status_code == 200
    assert OneTimeToken.objects.filter(token_type=TokenType.RECOVERY).count() == 0
    (second,) = changes.values()
    shown = read_session(api.post("/verify", second))["user"]
    assert (shown["email"], shown["phone"]) == ("new@example.com", NEW)
    assert OneTimeToken.objects.count() == 0


def test_an_anonymous_user_gets_email_and_phone_in_this_order(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"anonymous_enabled": True}, sms={"autoconfirm": True}, mailer={"autoconfirm": True})
    token = api.post("/signup", {}).json()["access_token"]
    shown = api.put("/user", {"email": EMAIL, "phone": NEW}, bearer=token).json()
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email", "phone"]}
    assert [identity["provider"] for identity in shown["identities"]] == ["email", "phone"]


# Test codes and Twilio Verify


def test_a_test_code_confirms_without_a_stored_secret(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    auth_config(sms={"provider": "", "test_codes": {NEW: "123456"}}, limits={"sms_sent": Rate(events=0)})
    ask(api, made)
    assert mailbox.sms == []
    OneTimeToken.objects.all().delete()
    assert_error(confirm(api, "123457"), *CODE_DEAD)
    assert read_session(confirm(api, "123456"))["user"]["phone"] == NEW
    assert_error(confirm(api, "123456"), *CODE_DEAD)


def test_a_test_code_changes_only_the_requested_phone(api: Api, auth_config: ChangeConfig, made: SignIn) -> None:
    auth_config(sms={"test_codes": {NEW: "123456"}})
    assert_error(confirm(api, "123456"), *CODE_DEAD)
    ask(api, made, OLD)
    assert_error(confirm(api, "123456"), *CODE_DEAD)
    assert User.objects.get().phone is None


def test_an_unreachable_gateway_confirms_nothing(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn
) -> None:
    ask(api, made)
    account = Twilio(account_sid="", auth_token=Secret(""), message_service_sid="")
    auth_config(sms={"provider": "twilio_verify", "twilio_verify": account})
    assert_error(confirm(api, read_code(mailbox)), *CODE_DEAD)


# Errors


@pytest.mark.parametrize("columns", [{}, {"phone_confirmed_at": None}, {"audience": "staff"}])
@pytest.mark.parametrize("autoconfirm", [False, True])
def test_phone_of_other_user_is_rejected(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn, columns: dict[str, Any], autoconfirm: bool
) -> None:
    make_number_user(phone=NEW, **columns)
    auth_config(sms={"autoconfirm": autoconfirm})
    before = table_contents()
    assert_error(put(api, made, f"+{NEW}", data={"a": 1}), *TAKEN)
    assert table_contents() == before
    assert mailbox.sms == []


def test_a_phone_taken_since_the_request_keeps_its_owner(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    make_number_user(phone=NEW)
    before = table_contents()
    assert_error(confirm(api, read_code(mailbox)), *TAKEN)
    assert table_contents() == before


@pytest.mark.parametrize("what", ["quota", "gateway"])
def test_an_undeliverable_message_changes_nothing(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn, what: str
) -> None:
    auth_config(**({"limits": {"sms_sent": Rate(events=0)}} if what == "quota" else {"sms": {"provider": ""}}))
    before = table_contents()
    response = put(api, made, password="another one", data={"a": 1})
    if what == "quota":
        assert_error(response, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    else:
        assert_error(
            response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
        )
    assert table_contents() == before
    assert mailbox.sms == []


def test_changes_have_minimum_interval_of_one_minute(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    before = table_contents()
    assert_error(put(api, made, "15559999999"), 429, "over_sms_send_rate_limit", SOON)
    assert table_contents() == before
    backdate(made.user, by=timedelta(seconds=61))
    backdate_rate_limits(timedelta(seconds=61))
    assert ask(api, made, "15559999999")["new_phone"] == "15559999999"
    assert_error(confirm(api, mailbox.sms[0].variables["Code"]), *CODE_DEAD)
    assert read_session(confirm(api, read_code(mailbox), "15559999999"))["user"]["phone"] == "15559999999"


def test_a_change_starts_the_interval_of_resend(api: Api) -> None:
    made = make_number_user()
    ask(api, made)
    assert_error(api.post("/resend", {"type": "phone_change", "phone": OLD}), 429, "over_sms_send_rate_limit", SOON)
    backdate_rate_limits(timedelta(seconds=60))
    assert api.post("/resend", {"type": "phone_change", "phone": OLD}).status_code == 200


@pytest.mark.parametrize(("age", "alive"), [(timedelta(seconds=55), True), (timedelta(seconds=61), False)])
def test_code_expires_after_one_minute(api: Api, mailbox: Mailbox, made: SignIn, age: timedelta, alive: bool) -> None:
    ask(api, made)
    backdate(OneTimeToken.objects.get(), by=age)
    response = confirm(api, read_code(mailbox))
    if alive:
        read_session(response)
    else:
        assert_error(response, *CODE_DEAD)


@pytest.mark.parametrize("type", ["sms", "signup", "email_change", "recovery"])
def test_code_of_change_is_rejected_for_other_types(api: Api, mailbox: Mailbox, made: SignIn, type: str) -> None:
    ask(api, made)
    response = api.post("/verify", {"type": type, "phone": NEW, "token": read_code(mailbox)})
    assert_error(response, *CODE_DEAD)
    assert Session.objects.count() == 1


def test_ten_wrong_codes_invalidate_code(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    guess = f"{(int(read_code(mailbox)) + 1) % 1_000_000:06d}"
    for _ in range(10):
        assert_error(confirm(api, guess), *CODE_DEAD)
    assert_error(confirm(api, read_code(mailbox)), *CODE_DEAD)


def test_a_banned_user_changes_nothing(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    ask(api, made)
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    assert_error(confirm(api, read_code(mailbox)), 403, "user_banned", "User is banned")
    assert User.objects.get().phone is None


def test_two_users_who_request_one_phone_get_separate_codes(api: Api, mailbox: Mailbox, made: SignIn) -> None:
    other = make_session()
    ask(api, made)
    backdate_rate_limits(timedelta(minutes=1))
    ask(api, other)
    first, second = (text.variables["Code"] for text in mailbox.sms)
    if first != second:
        assert read_session(confirm(api, second))["user"]["id"] == str(other.user.id)
        assert_error(confirm(api, first), *TAKEN)
        assert Identity.objects.filter(provider="phone").count() == 1


def test_a_channel_of_the_gateway_is_used(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, made: SignIn) -> None:
    account = Twilio(account_sid="AC1", auth_token=Secret("t"), message_service_sid="MG1")
    auth_config(sms={"provider": "twilio", "twilio": account})
    ask(api, made, channel="whatsapp")
    assert mailbox.sms[0].channel == "whatsapp"
