"""Sign-up by phone: the SMS code, its verification, and answers for existing phones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from authsvc.conf import Rate, Secret, Twilio, Vonage
from authsvc.messaging import SmsType
from authsvc.security import crypto
from tests.accounts.response_checks import read_code, read_session
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD, backdate, make_one_time_token, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, backdate_rate_limits, table_contents
from tokens.models import AmrClaim, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

PHONE = "15551234567"
SIGN_UP = {"phone": PHONE, "password": PASSWORD}
CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")
REQUESTED = ("user_confirmation_requested", {"provider": "phone"})
SIGNED_UP = ("user_signedup", {"provider": "phone"})
SOON = "For security purposes, you can only request this after 59 seconds."
TWILIO = Twilio(account_sid="AC1", auth_token=Secret("t"), message_service_sid="MG1")
GATEWAYS: dict[str, dict[str, Any]] = {
    "vonage": {"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    "twilio": {"provider": "twilio", "twilio": TWILIO},
    "twilio_verify": {"provider": "twilio_verify", "twilio_verify": TWILIO},
}


@pytest.fixture(autouse=True)
def numbers_enabled(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms=GATEWAYS["vonage"])


def confirm(api: Api, code: str, phone: str = PHONE) -> ApiResponse:
    return api.post("/verify", {"type": "sms", "phone": phone, "token": code})


def sign_in(api: Api, password: str = PASSWORD, phone: str = PHONE) -> ApiResponse:
    return api.post("/token?grant_type=password", {"phone": phone, "password": password})


def test_a_new_phone_creates_an_unconfirmed_account_and_gets_an_sms(api: Api, mailbox: Mailbox) -> None:
    response = api.post("/signup", {**SIGN_UP, "phone": "+1 555 1234567", "data": {"a": 1, "b": None}})

    assert response.status_code == 200
    shown = response.json()
    known = {"sub": shown["id"], "email_verified": False, "phone_verified": False}
    assert (shown["email"], shown["phone"]) == ("", PHONE)
    assert shown["app_metadata"] == {"provider": "phone", "providers": ["phone"]}
    assert shown["user_metadata"] == {**known, "a": 1}
    assert "phone_confirmed_at" not in shown
    assert shown["confirmation_sent_at"] == shown["created_at"]
    (identity,) = shown["identities"]
    assert (identity["provider"], identity["id"]) == ("phone", shown["id"])
    assert identity["identity_data"] == {**known, "a": 1, "b": None}
    user = User.objects.get()
    assert (user.phone, user.email) == (PHONE, None)
    assert hashing.verify_password(PASSWORD, user.password)
    (text,) = mailbox.sms
    assert (text.type, text.to, text.channel, text.user_id) == (SmsType.CONFIRMATION, PHONE, "sms", user.id)
    assert text.expires_at == (user.confirmation_sent_at or timezone.now()) + timedelta(seconds=60)
    assert list(text.variables) == ["Code"]
    row = OneTimeToken.objects.get()
    assert (row.token_type, row.relates_to, row.link_hash) == (TokenType.CONFIRMATION, PHONE, None)
    assert row.token_hash == crypto.hash_code(PHONE, text.variables["Code"])
    assert audit_trail() == [REQUESTED]
    assert audit_payloads()[0]["actor_username"] == PHONE
    assert mailbox.emails == []
    assert not Session.objects.exists()


def test_the_code_confirms_the_phone_and_signs_in(api: Api, mailbox: Mailbox) -> None:
    made = api.post("/signup", SIGN_UP).json()
    session = read_session(confirm(api, read_code(mailbox), "+1 555 1234567"))

    shown = session["user"]
    assert shown["id"] == made["id"]
    assert shown["phone_confirmed_at"] == shown["confirmed_at"] == shown["last_sign_in_at"] == shown["updated_at"]
    assert not OneTimeToken.objects.exists()
    assert list(AmrClaim.objects.values_list("authentication_method", flat=True)) == ["otp"]
    assert audit_trail() == [REQUESTED, SIGNED_UP]
    assert api.get("/user", bearer=session["access_token"]).json() == shown
    assert_error(confirm(api, read_code(mailbox)), *CODE_DEAD)
    assert sign_in(api, phone="+1 5551234567").status_code == 200


def test_an_unconfirmed_phone_does_not_sign_in_by_password(api: Api) -> None:
    api.post("/signup", SIGN_UP)
    assert_error(sign_in(api), 400, "phone_not_confirmed", "Phone not confirmed")
    assert_error(sign_in(api, "wrong"), 400, "invalid_credentials", "Invalid login credentials")


@pytest.mark.parametrize("length", [6, 8, 10])
def test_codes_have_the_configured_length(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, length: int) -> None:
    auth_config(sms={"otp_length": length})
    api.post("/signup", SIGN_UP)
    assert len(read_code(mailbox)) == length
    assert read_code(mailbox).isdigit()


# Refused codes


@pytest.mark.parametrize("phone", ["x", "1", "0123456789", "1555123456789012", "+1555-invalid", "15551234567\n"])
def test_malformed_phone_is_rejected(api: Api, phone: str) -> None:
    text = "Invalid phone number format (E.164 required)"
    assert_error(confirm(api, "123456", phone), 400, "validation_failed", text)


def test_an_unknown_phone_gets_the_response_of_a_wrong_code(api: Api) -> None:
    assert_error(confirm(api, "123456"), *CODE_DEAD)


@pytest.mark.parametrize("type", ["signup", "email", "recovery", "magiclink", "invite", "phone_change", "x", "SMS"])
def test_a_code_is_valid_for_its_type_only(api: Api, mailbox: Mailbox, type: str) -> None:
    api.post("/signup", SIGN_UP)
    before = table_contents()
    response = api.post("/verify", {"type": type, "phone": PHONE, "token": read_code(mailbox)})
    assert_error(response, *CODE_DEAD)
    assert table_contents() == before


@pytest.mark.parametrize("type", ["sms", "phone_change"])
def test_an_sms_code_has_no_link(api: Api, type: str) -> None:
    text = "Invalid email verification type"
    assert_error(api.post("/verify", {"type": type, "token_hash": "0" * 56}), 400, "validation_failed", text)


def test_ten_wrong_codes_invalidate_code(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    guess = f"{(int(read_code(mailbox)) + 1) % 1_000_000:06d}"
    for number in range(10):
        assert_error(confirm(api, guess), *CODE_DEAD)
        assert OneTimeToken.objects.get().attempts == number + 1
    assert_error(confirm(api, read_code(mailbox)), *CODE_DEAD)


@pytest.mark.parametrize(("age", "alive"), [(timedelta(seconds=55), True), (timedelta(seconds=61), False)])
def test_code_expires_after_one_minute(api: Api, mailbox: Mailbox, age: timedelta, alive: bool) -> None:
    api.post("/signup", SIGN_UP)
    backdate(OneTimeToken.objects.get(), by=age)
    before = table_contents()
    response = confirm(api, read_code(mailbox))
    if alive:
        read_session(response)
    else:
        assert_error(response, *CODE_DEAD)
        assert table_contents() == before


def test_a_ban_is_reported_after_the_correct_code(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    assert_error(confirm(api, f"{(int(read_code(mailbox)) + 1) % 1_000_000:06d}"), *CODE_DEAD)
    assert_error(confirm(api, read_code(mailbox)), 403, "user_banned", "User is banned")
    assert not Session.objects.exists()


def test_a_code_is_valid_in_its_audience_only(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    body = {"type": "sms", "phone": PHONE, "token": read_code(mailbox)}
    assert_error(api.post("/verify", body, headers={"X-JWT-AUD": "staff"}), *CODE_DEAD)
    read_session(confirm(api, read_code(mailbox)))


# Phones with a test code


def test_code_is_not_sent_and_can_be_reused(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(sms={"provider": "", "test_codes": {PHONE: "123456"}}, limits={"sms_sent": Rate(events=0)})
    assert api.post("/signup", SIGN_UP).status_code == 200
    assert mailbox.sms == []
    assert OneTimeToken.objects.get().token_hash == crypto.hash_code(PHONE, "123456")
    assert_error(confirm(api, "123457"), *CODE_DEAD)
    backdate(OneTimeToken.objects.get(), by=timedelta(days=9))
    first = read_session(confirm(api, "123456"))["user"]
    assert not OneTimeToken.objects.exists()
    second = read_session(confirm(api, "123456"))["user"]
    assert second["id"] == first["id"]
    assert audit_trail() == [REQUESTED, SIGNED_UP, SIGNED_UP]
    assert_error(confirm(api, "123457"), *CODE_DEAD)


def test_code_of_unknown_phone_is_rejected(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    assert_error(confirm(api, "123456"), *CODE_DEAD)
    make_user(email="", phone=PHONE, audience="staff")
    assert_error(confirm(api, "123456"), *CODE_DEAD)


def test_a_test_code_does_not_lift_a_ban(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    make_user(email="", phone=PHONE, banned_until=timezone.now() + timedelta(hours=1))
    assert_error(confirm(api, "123456"), 403, "user_banned", "User is banned")


def test_codes_can_expire(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    past, future = (timezone.now() + timedelta(hours=hours) for hours in (-1, 1))
    auth_config(sms={"test_codes": {PHONE: "123456"}, "test_codes_end_at": past})
    api.post("/signup", SIGN_UP)
    assert len(mailbox.sms) == 1
    if read_code(mailbox) != "123456":
        assert_error(confirm(api, "123456"), *CODE_DEAD)
    auth_config(sms={"test_codes_end_at": future})
    read_session(confirm(api, "123456"))


def test_a_phone_with_a_test_code_also_accepts_an_earlier_sent_code(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox
) -> None:
    api.post("/signup", SIGN_UP)
    auth_config(sms={"test_codes": {PHONE: "123456"}})
    read_session(confirm(api, read_code(mailbox)))


# Channels, gateways, limits


@pytest.mark.parametrize(
    ("gateway", "channel", "sent_by"),
    [
        ("vonage", None, "sms"),
        ("vonage", "", "sms"),
        ("vonage", "sms", "sms"),
        ("vonage", "whatsapp", None),
        ("twilio", "whatsapp", "whatsapp"),
        ("twilio_verify", "whatsapp", "whatsapp"),
        ("twilio", "invalid", None),
        ("twilio", "SMS", None),
    ],
)
def test_unsupported_channel_is_rejected(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, gateway: str, channel: str | None, sent_by: str | None
) -> None:
    auth_config(sms=GATEWAYS[gateway])
    response = api.post("/signup", {**SIGN_UP, "channel": channel})
    if sent_by:
        assert response.status_code == 200
        assert [text.channel for text in mailbox.sms] == [sent_by]
    else:
        text = (
            "Invalid channel, supported values are 'sms' or 'whatsapp'. "
            "'whatsapp' is only supported if Twilio or Twilio Verify is used as the provider."
        )
        assert_error(response, 400, "validation_failed", text)
        assert not User.objects.exists()


@pytest.mark.parametrize("sms", [{"provider": ""}, {"provider": "twilio"}, {"provider": "unknown"}])
@pytest.mark.parametrize("account", ["unknown", "unconfirmed", "confirmed"])
def test_without_a_gateway_every_phone_gets_a_server_error(
    api: Api, auth_config: ChangeConfig, account: str, sms: dict[str, str]
) -> None:
    auth_config(sms=sms)
    if account != "unknown":
        make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now() if account == "confirmed" else None)
    before = table_contents()
    response = api.post("/signup", SIGN_UP)
    assert_error(
        response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
    )
    assert table_contents() == before


def test_the_development_inbox_is_a_gateway(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(sms={"provider": ""}, mailer={"dev_inbox_enabled": True})
    assert api.post("/signup", SIGN_UP).status_code == 200
    assert len(mailbox.sms) == 1


@pytest.mark.parametrize("account", ["unknown", "unconfirmed", "confirmed"])
def test_sms_quota_rejects_every_phone_equally(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, account: str
) -> None:
    if account != "unknown":
        make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now() if account == "confirmed" else None)
    auth_config(limits={"sms_sent": Rate(events=0)})
    before = table_contents()
    assert_error(api.post("/signup", SIGN_UP), 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    assert table_contents() == before
    assert mailbox.sms == []


def test_the_quota_is_shared_by_all_phones_and_used_only_by_sent_messages(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email="", phone="15550000000", phone_confirmed_at=timezone.now())
    auth_config(limits={"sms_sent": Rate(events=1)})
    taken = {**SIGN_UP, "phone": "15550000000"}
    assert api.post("/signup", taken, headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 200
    assert api.post("/signup", SIGN_UP).status_code == 200
    before = table_contents()
    response = api.post("/signup", {**SIGN_UP, "phone": "15557654321"})
    assert_error(response, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    assert table_contents() == before


@pytest.mark.parametrize("columns", [None, {}, {"phone_confirmed_at": timezone.now()}])
def test_the_interval_between_sign_ups_is_the_same_for_every_phone(
    api: Api, mailbox: Mailbox, columns: dict[str, Any] | None
) -> None:
    if columns is not None:
        make_user(email="", phone=PHONE, **columns)
    assert api.post("/signup", SIGN_UP).status_code == 200
    before = table_contents()
    response = api.post("/signup", {**SIGN_UP, "phone": f"+{PHONE}"})
    assert_error(response, 429, "over_sms_send_rate_limit", SOON)
    assert int(response.headers["Retry-After"]) in range(30, 60)
    assert table_contents() == before
    backdate_rate_limits(timedelta(seconds=60))
    assert api.post("/signup", SIGN_UP).status_code == 200


def test_the_interval_applies_to_a_phone_with_a_test_code(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sms={"test_codes": {PHONE: "123456"}, "max_frequency": timedelta(seconds=5)})
    assert api.post("/signup", SIGN_UP).status_code == 200
    text = "For security purposes, you can only request this after 4 seconds."
    assert_error(api.post("/signup", SIGN_UP), 429, "over_sms_send_rate_limit", text)


# Existing phones


def test_a_repeated_sign_up_replaces_data_and_code(api: Api, mailbox: Mailbox) -> None:
    first = api.post("/signup", {**SIGN_UP, "data": {"n": 1, "x": 1}}).json()
    backdate_rate_limits(timedelta(minutes=1))
    second = api.post("/signup", {**SIGN_UP, "data": {"n": 2}}).json()
    assert (second["id"], second["user_metadata"]["n"]) == (first["id"], 2)
    assert "x" not in second["user_metadata"]
    assert Identity.objects.get().identity_data == second["user_metadata"]
    old, new = (text.variables["Code"] for text in mailbox.sms)
    if old != new:
        assert_error(confirm(api, old), *CODE_DEAD)
    read_session(confirm(api, new))
    assert sign_in(api).status_code == 200


def test_a_confirmed_phone_gets_a_fabricated_user(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now(), data={"secret": 1})
    before = table_contents()
    shown = api.post("/signup", {**SIGN_UP, "data": {"a": 1}}).json()
    assert shown["id"] != str(user.id)
    assert (shown["email"], shown["phone"], shown["role"]) == ("", PHONE, "authenticated")
    known = {"sub": shown["id"], "email_verified": False, "phone_verified": False, "a": 1}
    assert (shown["app_metadata"], shown["user_metadata"]) == (
        {"provider": "phone", "providers": ["phone"]}, known,
    )  # fmt: skip
    assert [identity["identity_data"] for identity in shown["identities"]] == [known]
    assert audit_trail() == [("user_repeated_signup", {"provider": "phone"})]
    assert table_contents().keys() - {name for name, held in before.items() if table_contents()[name] == held} == {
        "audit_log_entries"
    }
    assert mailbox.sms == []


def test_phone_of_other_audience_is_duplicate(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now(), audience="staff")
    shown = api.post("/signup", SIGN_UP).json()
    assert (shown["id"] != str(user.id), len(shown["identities"])) == (True, 1)
    assert mailbox.sms == []


def test_sign_up_cannot_set_password_of_verified_account(api: Api, mailbox: Mailbox) -> None:
    by_number = make_user(email="one@example.com", confirmed=False, phone=PHONE, phone_confirmed_at=timezone.now())
    by_address = make_user(email="two@example.com", phone="15550000000", data={"mine": 1})
    strange = {"password": "chosen by a stranger", "data": {"strange": 1}}

    assert api.post("/signup", {"email": "one@example.com", **strange}).json()["id"] != str(by_number.id)
    assert api.post("/signup", {"phone": "15550000000", **strange}).json()["id"] != str(by_address.id)
    backdate_rate_limits(timedelta(hours=1))
    assert api.post("/otp", {"email": "one@example.com"}).status_code == 200
    assert api.post("/otp", {"phone": "15550000000"}).status_code == 200

    assert len(mailbox.emails) == len(mailbox.sms) == 2
    for before in (by_number, by_address):
        after = User.objects.get(id=before.id)
        assert (after.password, after.raw_user_meta_data) == (before.password, before.raw_user_meta_data)
    assert sign_in(api, strange["password"]).status_code == 400  # type: ignore[arg-type]
    assert sign_in(api).status_code == 200
    shown = read_session(confirm(api, read_code(mailbox), "15550000000"))["user"]
    assert shown["id"] not in (str(by_number.id), str(by_address.id))


# Sign-ups by another person


@pytest.mark.parametrize("path", ["/otp", "/signup"])
def test_owners_sign_up_drops_password_of_earlier_sign_up(api: Api, mailbox: Mailbox, path: str) -> None:
    api.post("/signup", {**SIGN_UP, "password": "chosen by a stranger"})
    backdate_rate_limits(timedelta(minutes=1))
    body = {"phone": PHONE} if path == "/otp" else SIGN_UP
    assert api.post(path, body).status_code == 200
    read_session(confirm(api, read_code(mailbox)))
    assert sign_in(api, "chosen by a stranger").status_code == 400
    assert sign_in(api).status_code == 400


def test_a_verified_phone_invalidates_all_other_secrets_of_the_account(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    user = User.objects.get()
    make_one_time_token(user, TokenType.REAUTHENTICATION)
    make_one_time_token(make_user())
    read_session(confirm(api, read_code(mailbox)))
    assert not OneTimeToken.objects.filter(user=user).exists()
    assert OneTimeToken.objects.count() == 1


def test_the_first_verified_identifier_turns_the_other_one_into_a_pending_change(api: Api) -> None:
    user = make_user(email="ann@example.com", confirmed=False, phone=PHONE)
    secret = make_one_time_token(user, TokenType.CONFIRMATION, identifier=PHONE)
    shown = read_session(confirm(api, secret.code))["user"]
    assert (shown["id"], shown["phone"], "phone_confirmed_at" in shown) == (str(user.id), PHONE, True)
    assert (shown["email"], shown["new_email"], shown["identities"]) == ("", "ann@example.com", [])
    assert Session.objects.count() == 1
