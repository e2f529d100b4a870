"""GET /reauthenticate: when it is required, and what its code permits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Rate, Secret, Twilio, Vonage
from authsvc.messaging import EmailType, SmsType
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD, SignIn, backdate, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
PHONE = "15551234567"
NEW_PASSWORD = "another horse battery"
NEEDED = (400, "reauthentication_needed", "Password update requires reauthentication")
INVALID = (422, "reauthentication_not_valid", "Nonce has expired or is invalid")
GATEWAY = {"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")}


@pytest.fixture(autouse=True)
def reauthentication_required(auth_config: ChangeConfig) -> None:
    auth_config(passwords={"update_requires_reauthentication": True}, sms=GATEWAY)


def user_with(email: str = EMAIL, **columns: Any) -> SignIn:
    """Signed in two days ago."""
    return make_session(make_user(email=email, **columns), created_at=timezone.now() - timedelta(days=2))


def user_of_a_phone() -> SignIn:
    return user_with("", phone=PHONE, phone_confirmed_at=timezone.now())


def ask(api: Api, made: SignIn) -> ApiResponse:
    return api.get("/reauthenticate", bearer=made.access_token)


def change(api: Api, made: SignIn, nonce: str | None) -> ApiResponse:
    return api.put("/user", {"password": NEW_PASSWORD, "nonce": nonce}, bearer=made.access_token)


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06d}"


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_code_is_mailed_to_the_address(api: Api, mailbox: Mailbox, slash: str) -> None:
    made = user_with(phone=PHONE, phone_confirmed_at=timezone.now())
    response = api.get(f"/reauthenticate{slash}", bearer=made.access_token)

    assert (response.status_code, response.json()) == (200, {})
    (mail,) = mailbox.emails
    assert mailbox.sms == []
    assert (mail.type, mail.to, mail.user_id) == (EmailType.REAUTHENTICATION, EMAIL, made.user.id)
    assert set(mail.variables) == {"SiteURL", "Email", "Data", "Token"}
    row, after = OneTimeToken.objects.get(), User.objects.get()
    assert (row.token_type, row.relates_to, row.link_hash) == (TokenType.REAUTHENTICATION, EMAIL, None)
    assert row.created_at == after.reauthentication_sent_at == after.updated_at
    assert mail.expires_at == row.created_at + timedelta(days=1)
    assert audit_trail() == [("user_reauthenticate_requested", None)]


def test_without_an_address_the_code_is_sent_to_the_phone(api: Api, mailbox: Mailbox) -> None:
    made = user_of_a_phone()
    response = ask(api, made)
    (text,) = mailbox.sms
    assert (response.status_code, response.json()) == (200, {"message_id": str(text.id)})
    assert (text.type, text.to, text.channel) == (SmsType.REAUTHENTICATION, PHONE, "sms")
    assert OneTimeToken.objects.get().relates_to == PHONE
    assert change(api, made, text.variables["Code"]).status_code == 200


def test_a_phone_with_a_test_code_uses_it(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(sms={"test_codes": {PHONE: "777888"}})
    made = user_of_a_phone()
    assert ask(api, made).json() == {"message_id": "test-otp"}
    assert mailbox.sms == []
    assert change(api, made, "777888").status_code == 200


def test_a_test_code_is_not_checked_at_the_gateway(api: Api, auth_config: ChangeConfig) -> None:
    account = Twilio(account_sid="AC1", auth_token=Secret("t"), message_service_sid="VA1")
    sms = {"provider": "twilio_verify", "twilio_verify": account, "test_codes": {PHONE: "777888"}}
    auth_config(sms=sms)
    made = user_of_a_phone()
    ask(api, made)
    assert_error(change(api, made, "777889"), *INVALID)
    assert change(api, made, "777888").status_code == 200


@pytest.mark.parametrize(
    ("email", "columns", "refusal"),
    [
        (
            "",
            {},
            (400, "validation_failed", "Reauthentication requires the user to have an email or a phone number"),
        ),
        (
            EMAIL,
            {"confirmed": False, "phone": PHONE, "phone_confirmed_at": timezone.now()},
            (422, "email_not_confirmed", "Please verify your email first."),
        ),
        ("", {"phone": PHONE}, (422, "phone_not_confirmed", "Please verify your phone first.")),
    ],
)
def test_no_code_is_sent_without_a_verified_address(
    api: Api, mailbox: Mailbox, email: str, columns: dict[str, Any], refusal: tuple[int, str, str]
) -> None:
    made = user_with(email, **columns)
    before = table_contents()
    assert_error(ask(api, made), *refusal)
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])


@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_codes_have_minimum_interval_of_one_minute(api: Api, mailbox: Mailbox, known_by: str) -> None:
    made = user_with() if known_by == "email" else user_of_a_phone()
    assert ask(api, made).status_code == 200
    before = table_contents()
    code = "over_email_send_rate_limit" if known_by == "email" else "over_sms_send_rate_limit"
    response = ask(api, made)
    assert_error(response, 429, code, "For security purposes, you can only request this after 59 seconds.")
    assert int(response.headers["Retry-After"]) in range(30, 60)
    assert table_contents() == before
    backdate(made.user, *OneTimeToken.objects.all(), by=timedelta(seconds=61))
    backdate_rate_limits(timedelta(seconds=61))
    assert ask(api, made).status_code == 200
    assert OneTimeToken.objects.count() == 1
    assert len(mailbox.emails + mailbox.sms) == 2


def test_interval_is_configurable(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=10)})
    made = user_with(reauthentication_sent_at=timezone.now() - timedelta(seconds=11))
    assert ask(api, made).status_code == 200


@pytest.mark.parametrize("known_by", ["email", "phone"])
def test_exhausted_quota_rejects_request(api: Api, auth_config: ChangeConfig, mailbox: Mailbox, known_by: str) -> None:
    made = user_with() if known_by == "email" else user_of_a_phone()
    auth_config(limits={"email_sent": Rate(events=0), "sms_sent": Rate(events=0)})
    before = table_contents()
    if known_by == "email":
        assert_error(ask(api, made), 429, "over_email_send_rate_limit", "email rate limit exceeded")
    else:
        assert_error(ask(api, made), 429, "over_sms_send_rate_limit", "SMS rate limit exceeded")
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])


def test_without_a_gateway_a_phone_gets_a_server_error(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sms={"provider": ""})
    made = user_of_a_phone()
    before = table_contents()
    response = ask(api, made)
    assert_error(
        response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
    )
    assert table_contents() == before


def test_request_requires_signed_in_user(api: Api) -> None:
    assert_error(api.get("/reauthenticate"), 401, "no_authorization", "This endpoint requires a valid Bearer token")
    assert api.post("/reauthenticate", bearer=user_with().access_token).status_code == 405


# Use of the code


def test_code_permits_one_password_change(api: Api, mailbox: Mailbox) -> None:
    made = user_with()
    make_one_time_token(made.user, TokenType.RECOVERY)
    ask(api, made)
    code = mailbox.emails[0].variables["Token"]
    response = change(api, made, code)
    assert response.status_code == 200
    assert "reauthentication_sent_at" not in response.json()
    assert not OneTimeToken.objects.exists()
    again = api.put("/user", {"password": "yet another one", "nonce": code}, bearer=made.access_token)
    assert_error(again, *INVALID)


def test_code_is_used_up_by_rejected_change(api: Api, mailbox: Mailbox) -> None:
    made = user_with()
    ask(api, made)
    code = mailbox.emails[0].variables["Token"]
    response = api.put("/user", {"password": PASSWORD, "nonce": code}, bearer=made.access_token)
    assert_error(response, 422, "same_password", "New password should be different from the old password.")
    assert not OneTimeToken.objects.exists()
    assert User.objects.get().reauthentication_sent_at is None
    assert_error(change(api, made, code), *INVALID)


@pytest.mark.parametrize(
    ("interval", "age", "needed"),
    [
        (timedelta(0), timedelta(0), True),
        (timedelta(hours=24), timedelta(hours=23, minutes=59), False),
        (timedelta(hours=24), timedelta(hours=24, seconds=1), True),
        (timedelta(hours=24), timedelta(days=9), True),
    ],
)
def test_session_younger_than_the_interval_needs_no_code(
    api: Api, auth_config: ChangeConfig, interval: timedelta, age: timedelta, needed: bool
) -> None:
    auth_config(passwords={"reauthentication_interval": interval})
    made = make_session(make_user(email=EMAIL), created_at=timezone.now() - age)
    response = change(api, made, None)
    if needed:
        assert_error(response, *NEEDED)
    else:
        assert response.status_code == 200


def test_refresh_does_not_reset_session_age(api: Api) -> None:
    made = user_with()
    response = api.post("/token?grant_type=refresh_token", {"refresh_token": made.refresh_token})
    again = api.put("/user", {"password": NEW_PASSWORD}, bearer=response.json()["access_token"])
    assert_error(again, *NEEDED)


def test_unneeded_code_is_ignored(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(passwords={"reauthentication_interval": timedelta(hours=24)})
    made = user_with()
    ask(api, made)
    young = make_session(made.user)
    assert api.put("/user", {"data": {"a": 1}, "nonce": "wrong"}, bearer=made.access_token).status_code == 200
    assert OneTimeToken.objects.get().attempts == 0
    assert change(api, young, "wrong").status_code == 200


def test_unchanged_values_and_metadata_need_no_code(api: Api) -> None:
    body = {"data": {"a": 1}, "email": EMAIL}
    assert api.put("/user", body, bearer=user_with().access_token).status_code == 200


@pytest.mark.parametrize("contact", [{"email": "new@example.com"}, {"phone": "15557654321"}])
def test_new_contact_needs_a_code(api: Api, mailbox: Mailbox, contact: dict[str, str]) -> None:
    made = user_with()
    assert_error(api.put("/user", contact, bearer=made.access_token), *NEEDED)
    ask(api, made)
    code = mailbox.emails[0].variables["Token"]
    assert_error(api.put("/user", {**contact, "nonce": wrong(code)}, bearer=made.access_token), *INVALID)
    assert api.put("/user", {**contact, "nonce": code}, bearer=made.access_token).status_code == 200


def test_first_contact_of_an_anonymous_user_needs_no_code(api: Api) -> None:
    token = user_with("", is_anonymous=True).access_token
    assert api.put("/user", {"email": EMAIL, "password": NEW_PASSWORD}, bearer=token).status_code == 200


def test_ten_wrong_codes_invalidate_code(api: Api, mailbox: Mailbox) -> None:
    made = user_with()
    ask(api, made)
    code = mailbox.emails[0].variables["Token"]
    for number in range(10):
        assert_error(change(api, made, wrong(code)), *INVALID)
        assert OneTimeToken.objects.get().attempts == number + 1
    assert_error(change(api, made, code), *INVALID)


@pytest.mark.parametrize(("known_by", "life"), [("email", timedelta(days=1)), ("phone", timedelta(seconds=60))])
@pytest.mark.parametrize("late", [False, True])
def test_code_expires_with_its_message(api: Api, mailbox: Mailbox, known_by: str, life: timedelta, late: bool) -> None:
    made = user_with() if known_by == "email" else user_of_a_phone()
    ask(api, made)
    code = (mailbox.emails or mailbox.sms)[0].variables["Token" if known_by == "email" else "Code"]
    backdate(OneTimeToken.objects.get(), by=life + timedelta(seconds=1 if late else -5))
    response = change(api, made, code)
    if late:
        assert_error(response, *INVALID)
    else:
        assert response.status_code == 200


def test_code_of_other_user_is_rejected(api: Api, mailbox: Mailbox) -> None:
    mine, other = user_with(), user_with("other@example.com")
    ask(api, other)
    assert_error(change(api, mine, mailbox.emails[0].variables["Token"]), *INVALID)


@pytest.mark.parametrize("token_type", [TokenType.RECOVERY, TokenType.CONFIRMATION, TokenType.EMAIL_CHANGE_CURRENT])
def test_code_of_other_message_is_rejected(api: Api, token_type: TokenType) -> None:
    made = user_with()
    assert_error(change(api, made, make_one_time_token(made.user, token_type).code), *INVALID)


def test_code_of_previous_address_is_rejected(api: Api, mailbox: Mailbox) -> None:
    made = user_with()
    ask(api, made)
    User.objects.update(email="new@example.com")
    assert_error(change(api, made, mailbox.emails[0].variables["Token"]), *INVALID)


def test_a_user_without_email_and_phone_gets_an_error(api: Api) -> None:
    text = "Reauthentication requires an email or a phone number"
    assert_error(change(api, user_with(""), "123456"), 422, "reauthentication_not_valid", text)


@pytest.mark.parametrize("type", ["email", "signup", "recovery", "magiclink", "email_change", "reauthentication"])
def test_the_code_does_not_sign_in(api: Api, mailbox: Mailbox, type: str) -> None:
    made = user_with()
    ask(api, made)
    body = {"type": type, "email": EMAIL, "token": mailbox.emails[0].variables["Token"]}
    assert_error(api.post("/verify", body), 403, "otp_expired", "Token has expired or is invalid")
    assert Session.objects.count() == 1
