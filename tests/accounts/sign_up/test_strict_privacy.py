"""Strict privacy: no answer reveals whether an account exists, and owners are notified of attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Rate, Secret, Vonage
from authsvc.messaging import EmailType
from authsvc.models import RateLimit
from authsvc.security import rate_limits
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox, describe_shape
from tests.factories import PASSWORD, SignIn, backdate, make_session, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL = "user@example.com"
MINE = "mine@example.com"
PHONE = "15551234567"
SOON = "For security purposes, you can only request this after 59 seconds."


@pytest.fixture(autouse=True)
def strict(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"strict_privacy_enabled": True, "phone_enabled": True, "anonymous_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )


def status_and_body(response: ApiResponse) -> tuple[int, Any]:
    return response.status_code, describe_shape(response.json())


# One-time codes


@pytest.mark.parametrize("known_by", ["email", "phone"])
@pytest.mark.parametrize(("signups_disabled", "create_user"), [(False, False), (True, False), (True, True)])
def test_a_code_for_an_unknown_account_is_not_sent(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, known_by: str, signups_disabled: bool, create_user: bool
) -> None:
    auth_config(signup={"disabled": signups_disabled})
    if known_by == "email":
        make_user(email=EMAIL)
        unknown, known = {"email": "unknown@example.com"}, {"email": EMAIL}
    else:
        make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
        unknown, known = {"phone": "15559999999"}, {"phone": PHONE}
    before = table_contents()
    first = api.post("/otp", {**unknown, "create_user": create_user})
    assert table_contents() == before
    assert (mailbox.emails, mailbox.sms) == ([], [])
    second = api.post("/otp", {**known, "create_user": create_user})
    assert status_and_body(first) == status_and_body(second)
    assert (first.status_code, first.headers.keys()) == (200, second.headers.keys())
    assert len(mailbox.emails + mailbox.sms) == 1

    code = "over_email_send_rate_limit" if known_by == "email" else "over_sms_send_rate_limit"
    for body in (unknown, known):
        assert_error(api.post("/otp", {**body, "create_user": create_user}), 429, code, SOON)


@pytest.mark.parametrize("body", [{"email": EMAIL}, {"phone": PHONE}])
@pytest.mark.parametrize("events", [0, 1])
def test_an_exhausted_quota_reveals_nothing(
    api: Api, auth_config: ChangeConfig, body: dict[str, str], events: int
) -> None:
    rate = Rate(events=events)
    auth_config(limits={"email_sent": rate, "sms_sent": rate})
    for bucket in ("email_sent", "sms_sent"):
        rate_limits.consume_event(bucket=bucket, rate=rate)
    unknown = api.post("/otp", {**body, "create_user": False})
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    backdate_rate_limits(timedelta(minutes=2))
    known = api.post("/otp", {**body, "create_user": False})
    assert (unknown.status_code, unknown.json()) == (known.status_code, known.json())
    assert unknown.status_code == 429
    waits = [response.headers.get("Retry-After") for response in (unknown, known)]
    if events:
        passed = [3600 - int(wait or 0) for wait in waits]
        assert passed[0] in range(30)
        assert passed[1] in range(120, 150)
    else:
        assert waits == [None, None]


@pytest.mark.parametrize("known", [False, True])
def test_a_missing_gateway_reveals_nothing(api: Api, auth_config: ChangeConfig, known: bool) -> None:
    auth_config(sms={"provider": ""})
    if known:
        make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    response = api.post("/otp", {"phone": PHONE, "create_user": False})
    assert_error(
        response, 500, "unexpected_failure", "Unable to get SMS provider", error_id=response.json()["error_id"]
    )


@pytest.mark.parametrize("create_user", [False, True])
def test_an_invalid_email_or_phone_is_reported(api: Api, create_user: bool) -> None:
    email = api.post("/otp", {"email": "x", "create_user": create_user})
    assert_error(email, 400, "validation_failed", "Unable to validate email address: invalid format")
    phone = api.post("/otp", {"phone": "x", "create_user": create_user})
    assert_error(phone, 400, "validation_failed", "Invalid phone number format (E.164 required)")


def test_without_strict_privacy_the_error_is_specific(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"strict_privacy_enabled": False})
    response = api.post("/otp", {"email": EMAIL, "create_user": False})
    assert_error(response, 422, "otp_disabled", "Signups not allowed for otp")


# Change to a taken address


def ask(api: Api, made: SignIn, email: str = EMAIL) -> ApiResponse:
    return api.put("/user", {"email": email, "data": {"a": 1}}, bearer=made.access_token)


@pytest.mark.parametrize("columns", [{}, {"audience": "staff"}, {"confirmed": False}])
@pytest.mark.parametrize("secure", [True, False])
def test_taken_address_gets_same_response_and_owner_is_notified(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, columns: dict[str, Any], secure: bool
) -> None:
    auth_config(mailer={"secure_email_change_enabled": secure})
    owner = make_user(email=EMAIL, **columns)
    free, taken = make_session(), make_session(make_user(email=MINE))
    one, other = ask(api, free, "free@example.com"), ask(api, taken)
    assert status_and_body(one) == status_and_body(other)
    assert (one.status_code, one.headers.keys()) == (200, other.headers.keys())
    assert other.json()["new_email"] == EMAIL

    assert audit_trail() == [("user_modified", None)] * 2
    rows = {user: [] for user in (free.user.id, taken.user.id)}  # type: ignore[var-annotated]
    for row in OneTimeToken.objects.order_by("token_type"):
        rows[row.user_id].append(row.token_type)
    assert rows[free.user.id] == rows[taken.user.id]
    sent = {mail.to: mail for mail in mailbox.emails}
    notice = sent[EMAIL]
    assert (notice.type, notice.user_id) == (EmailType.EMAIL_TAKEN, owner.id)
    assert set(notice.variables) == {"SiteURL", "Email", "Data"}
    assert notice.variables["Email"] == EMAIL
    assert MINE not in str(notice.variables)
    if secure:
        assert sent[MINE].type == EmailType.EMAIL_CHANGE
    assert len(mailbox.emails) == (4 if secure else 2)


def test_the_owner_of_an_address_is_notified_of_each_resend(api: Api, mailbox: Mailbox) -> None:
    owner = make_user(email=EMAIL)
    made = make_session(make_user(email=MINE))
    assert ask(api, made).status_code == 200
    backdate_rate_limits(timedelta(minutes=1))
    mailbox.clear()
    response = api.post("/resend", {"type": "email_change", "email": MINE})
    to_owner = [mail for mail in mailbox.emails if mail.to == EMAIL]
    assert [(mail.type, mail.user_id) for mail in to_owner] == [(EmailType.EMAIL_TAKEN, owner.id)]
    assert response.json() == {"message_id": str(to_owner[0].id)}


def test_taken_address_keeps_owner(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    owner = make_user(email=EMAIL)
    made = make_session(make_user(email=MINE))
    ask(api, made)
    present = next(mail for mail in mailbox.emails if mail.to == MINE)
    auth_config(mailer={"secure_email_change_enabled": False})
    response = api.post("/verify", {"type": "email_change", "token_hash": present.variables["TokenHash"]})
    assert response.status_code == 422
    assert User.objects.get(id=made.user.id).email == MINE
    assert User.objects.get(id=owner.id).email == EMAIL


@pytest.mark.parametrize("autoconfirm", [False, True])
def test_owners_are_notified_at_most_once_a_minute(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, autoconfirm: bool
) -> None:
    auth_config(mailer={"autoconfirm": autoconfirm})
    make_user(email=EMAIL)
    anonymous_session = api.post("/signup", {}).json()
    body = {"email": EMAIL}
    assert api.put("/user", body, bearer=anonymous_session["access_token"]).status_code == 200
    assert_error(
        api.put("/user", body, bearer=anonymous_session["access_token"]), 429, "over_email_send_rate_limit", SOON
    )
    assert [(mail.type, mail.to) for mail in mailbox.emails] == [(EmailType.EMAIL_TAKEN, EMAIL)]
    backdate(User.objects.get(is_anonymous=True), by=timedelta(minutes=1))
    backdate_rate_limits(timedelta(minutes=1))
    assert api.put("/user", body, bearer=anonymous_session["access_token"]).status_code == 200


def test_free_address_can_be_changed_to(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    made = make_session(make_user(email=MINE))
    assert ask(api, made, "free@example.com").status_code == 200
    body = {"type": "email_change", "token_hash": mailbox.emails[0].variables["TokenHash"]}
    assert api.post("/verify", body).json()["user"]["email"] == "free@example.com"


def test_notice_uses_quota_and_is_rejected_like_link(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    auth_config(limits={"email_sent": Rate(events=0)})
    made = make_session()
    for email in (EMAIL, "free@example.com"):
        assert_error(ask(api, made, email), 429, "over_email_send_rate_limit", "email rate limit exceeded")


# Change to a taken phone

TAKEN_NUMBER = "15557654321"


@pytest.fixture
def owner_of_number() -> User:
    return make_user(email="", phone=TAKEN_NUMBER, phone_confirmed_at=timezone.now())


def ask_for_number(api: Api, made: SignIn, phone: str = TAKEN_NUMBER) -> ApiResponse:
    return api.put("/user", {"phone": phone, "data": {"a": 1}}, bearer=made.access_token)


@pytest.mark.parametrize("fixed", [False, True])
def test_taken_phone_gets_same_response_and_no_code(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, owner_of_number: User, fixed: bool
) -> None:
    if fixed:
        auth_config(sms={"test_codes": {PHONE: "123456", TAKEN_NUMBER: "123456"}})
    free, taken = make_session(), make_session()
    one = ask_for_number(api, free, PHONE)
    mailbox.clear()
    other = ask_for_number(api, taken)
    assert status_and_body(one) == status_and_body(other)
    assert (one.status_code, one.headers.keys()) == (200, other.headers.keys())
    assert other.json()["new_phone"] == TAKEN_NUMBER
    assert (mailbox.emails, mailbox.sms) == ([], [])
    assert audit_trail() == [("user_modified", None)] * 2
    rows = OneTimeToken.objects.order_by("created_at").values_list("user_id", "token_type", "relates_to")
    assert list(rows) == [
        (free.user.id, "phone_change_token", PHONE),
        (taken.user.id, "phone_change_token", TAKEN_NUMBER),
    ]
    for made, phone in ((free, PHONE), (taken, TAKEN_NUMBER)):
        assert_error(ask_for_number(api, made, phone), 429, "over_sms_send_rate_limit", SOON)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_resend_to_a_taken_phone_sends_nothing(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, owner_of_number: User, fixed: bool
) -> None:
    if fixed:
        auth_config(sms={"test_codes": {PHONE: "123456", TAKEN_NUMBER: "123456"}})
    responses = []
    for email, phone in (("free@example.com", PHONE), (MINE, TAKEN_NUMBER)):
        assert ask_for_number(api, make_session(make_user(email=email)), phone).status_code == 200
        backdate_rate_limits(timedelta(minutes=1))
        mailbox.clear()
        responses.append(api.post("/resend", {"type": "phone_change", "email": email}))
    assert mailbox.sms == []
    assert status_and_body(responses[0]) == status_and_body(responses[1])
    if fixed:
        assert responses[0].json() == responses[1].json()


def test_a_taken_phone_keeps_its_owner(api: Api, auth_config: ChangeConfig, owner_of_number: User) -> None:
    made = make_session()
    ask_for_number(api, made)
    auth_config(sms={"test_codes": {TAKEN_NUMBER: "123456"}})
    body = {"type": "phone_change", "phone": TAKEN_NUMBER, "token": "123456"}
    assert api.post("/verify", body).status_code == 422
    assert User.objects.get(id=owner_of_number.id).phone == TAKEN_NUMBER
    assert User.objects.get(id=made.user.id).phone is None


@pytest.mark.parametrize(
    ("config", "status"),
    [({"limits": {"sms_sent": Rate(events=0)}}, 429), ({"sms": {"provider": ""}}, 500)],
)
def test_send_errors_apply_to_taken_phone(
    api: Api, auth_config: ChangeConfig, owner_of_number: User, config: dict[str, Any], status: int
) -> None:
    auth_config(**config)
    responses = [ask_for_number(api, make_session(), phone) for phone in (PHONE, TAKEN_NUMBER)]
    assert [response.status_code for response in responses] == [status] * 2
    assert status_and_body(responses[0]) == status_and_body(responses[1])


def test_a_taken_phone_uses_no_quota(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, owner_of_number: User
) -> None:
    auth_config(limits={"sms_sent": Rate(events=1)})
    assert ask_for_number(api, make_session()).status_code == 200
    RateLimit.objects.filter(bucket="sms_sent:client").delete()  # the share of the client
    assert ask_for_number(api, make_session(), PHONE).status_code == 200
    assert [text.to for text in mailbox.sms] == [PHONE]


def test_under_auto_confirm_a_taken_phone_stays_pending(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, owner_of_number: User
) -> None:
    auth_config(sms={"autoconfirm": True, "provider": ""})
    response = ask_for_number(api, make_session())
    assert (response.status_code, response.json()["phone"], response.json()["new_phone"]) == (200, "", TAKEN_NUMBER)
    assert mailbox.sms == []


# Sign-up with a taken email or phone


@pytest.mark.parametrize("known_by", ["email", "phone"])
@pytest.mark.parametrize("autoconfirm", ["mailer", "sms", ""])
def test_duplicate_gets_response_of_unconfirmed_account(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, known_by: str, autoconfirm: str
) -> None:
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now(), data={"secret": 1})
    known = {"email": EMAIL} if known_by == "email" else {"phone": PHONE}
    unknown = {"email": "new@example.com"} if known_by == "email" else {"phone": "15559999999"}
    further = {"password": PASSWORD, "data": {"a": 1, "b": None}}
    fresh = api.post("/signup", {**unknown, **further})
    mailbox.clear()
    if autoconfirm:
        auth_config(**{autoconfirm: {"autoconfirm": True}})
    duplicate = api.post("/signup", {**known, **further})

    assert status_and_body(duplicate) == status_and_body(fresh)
    assert list(duplicate.json()) == list(fresh.json())
    assert duplicate.headers.keys() == fresh.headers.keys()
    shown, real = duplicate.json(), fresh.json()
    assert (shown["role"], shown["aud"]) == (real["role"], real["aud"])
    assert shown["app_metadata"] == real["app_metadata"]
    own = {"sub": shown["id"], **({"email": EMAIL} if known_by == "email" else {})}
    assert shown["user_metadata"] == {**real["user_metadata"], **own}
    (identity,) = shown["identities"]
    assert (identity["id"], identity["user_id"]) == (shown["id"], shown["id"])
    assert identity["identity_data"]["b"] is None
    assert not User.objects.filter(id=shown["id"]).exists()
    assert (mailbox.emails, mailbox.sms) == ([], [])
    assert not Session.objects.exists()


def test_fabricated_users_of_duplicates_differ(api: Api) -> None:
    make_user(email=EMAIL)
    seen = set()
    for _ in range(2):
        shown = api.post("/signup", {"email": EMAIL, "password": PASSWORD}).json()
        seen |= {shown["id"], shown["identities"][0]["identity_id"]}
        backdate_rate_limits(timedelta(minutes=15))
    assert len(seen) == 4
