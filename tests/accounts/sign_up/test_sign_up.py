"""POST /signup: order of errors, new accounts, and stored rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from authsvc.api.renderers import rfc3339
from authsvc.messaging import EmailType
from tests.accounts.sign_up.sign_up_requests import EMAIL, PHONE, SIGN_UP, USER_KEYS, read_session
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents
from tokens.jwt import access_tokens
from tokens.models import FlowState, OneTimeToken, Session

pytestmark = pytest.mark.django_db

IDENTITY_KEYS = [
    "identity_id", "id", "user_id", "identity_data", "provider", "last_sign_in_at", "created_at", "updated_at", "email",
]  # fmt: skip
CHANNEL_INVALID = (
    "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio Verify"
    " is used as the provider."
)
TOO_SHORT = "Password should be at least 6 characters."
PKCE_INCOMPLETE = "PKCE flow requires code_challenge_method and code_challenge"


def token_row(email: str = EMAIL) -> OneTimeToken:
    return OneTimeToken.objects.get(user__email=email)


# A new address


@pytest.mark.usefixtures("production_hasher")
def test_new_address_creates_unconfirmed_account_and_sends_email(api: Api, mailbox: Mailbox) -> None:
    response = api.post("/signup", {**SIGN_UP, "data": {"a": 1, "b": None}})

    assert response.status_code == 200
    shown = response.json()
    assert list(shown) == USER_KEYS
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False}
    assert shown["aud"] == "authenticated"
    assert shown["role"] == "authenticated"
    assert (shown["email"], shown["phone"]) == (EMAIL, "")
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}
    assert shown["user_metadata"] == {**known, "a": 1}
    assert shown["is_anonymous"] is False
    (identity,) = shown["identities"]
    assert list(identity) == IDENTITY_KEYS
    assert (identity["id"], identity["user_id"], identity["provider"]) == (shown["id"], shown["id"], "email")
    assert identity["identity_data"] == {**known, "a": 1, "b": None}
    assert identity["email"] == EMAIL
    moment = shown["created_at"]
    assert datetime.fromisoformat(moment).tzinfo == UTC
    assert len(moment) == len("2024-05-01T10:00:00.123456Z")
    assert moment.endswith("Z")
    assert {shown["confirmation_sent_at"], shown["updated_at"]} == {moment}
    assert {identity[name] for name in ("last_sign_in_at", "created_at", "updated_at")} == {moment}

    user = User.objects.get()
    assert (str(user.id), user.aud, user.role, user.email, user.phone) == (
        shown["id"], "authenticated", "authenticated", EMAIL, None,
    )  # fmt: skip
    assert (user.email_confirmed_at, user.last_sign_in_at, user.invited_at) == (None, None, None)
    assert (user.email_change, user.phone_change, user.email_change_confirm_status) == ("", "", 0)
    assert user.password is not None
    assert user.password.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert hashing.verify_password(PASSWORD, user.password)
    row = token_row()
    assert (row.token_type, row.relates_to, row.attempts) == ("confirmation_token", EMAIL, 0)
    assert row.created_at == user.confirmation_sent_at == user.created_at
    assert audit_payloads() == [
        {
            "action": "user_confirmation_requested",
            "actor_id": shown["id"],
            "actor_username": EMAIL,
            "actor_via_sso": False,
            "log_type": "user",
            "traits": {"provider": "email"},
        }
    ]
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, str(mail.user_id)) == (EmailType.CONFIRMATION, EMAIL, shown["id"])
    assert not Session.objects.exists()
    assert not FlowState.objects.exists()


def test_response_contains_stored_rows(api: Api) -> None:
    shown = api.post("/signup", {**SIGN_UP, "data": {"n": 1.5, "list": [1, {"x": "ü"}]}}).json()
    user, identity = User.objects.get(), Identity.objects.get()
    assert shown["user_metadata"] == user.raw_user_meta_data
    assert shown["app_metadata"] == user.raw_app_meta_data
    assert shown["identities"][0]["identity_data"] == identity.identity_data
    assert shown["identities"][0]["identity_id"] == str(identity.id)
    assert identity.provider_id == shown["id"]
    assert identity.email == EMAIL
    assert rfc3339(user.created_at or timezone.now()) == shown["created_at"]


def test_the_email_contains_the_link_and_code_of_the_account(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    variables = mailbox.emails[0].variables
    code, link = variables["Token"], variables["TokenHash"]
    assert len(code) == 6
    assert code.isdigit()
    assert len(link) == 56
    row = token_row()
    assert row.link_hash not in (None, link)
    assert code not in row.token_hash
    assert link not in row.token_hash
    assert mailbox.emails[0].expires_at == row.created_at + timedelta(days=1)


def test_an_address_is_stored_in_lower_case(api: Api, mailbox: Mailbox) -> None:
    shown = api.post("/signup", {**SIGN_UP, "email": "User@EXAMPLE.com"}).json()
    assert (shown["email"], shown["identities"][0]["email"]) == (EMAIL, EMAIL)
    assert shown["user_metadata"]["email"] == EMAIL
    assert mailbox.emails[0].to == EMAIL
    assert token_row().relates_to == EMAIL


def test_verified_values_override_the_clients_data(api: Api) -> None:
    claimed = {"sub": "x", "email": "boss@example.com", "email_verified": True, "phone_verified": True, "role": "admin"}
    shown = api.post("/signup", {**SIGN_UP, "data": claimed}).json()
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False, "role": "admin"}
    assert shown["user_metadata"] == known
    assert shown["identities"][0]["identity_data"] == known
    assert shown["role"] == "authenticated"


def test_a_name_in_the_data_is_in_the_audit_trail(api: Api) -> None:
    api.post("/signup", {**SIGN_UP, "data": {"full_name": "A. User"}})
    assert audit_payloads()[0]["actor_name"] == "A. User"


@pytest.mark.parametrize(
    "further",
    [
        {"data": None, "code_challenge": None, "code_challenge_method": None, "channel": None, "phone": None},
        {"options": {"x": [1]}, "gotrue_meta_security": {"captcha_token": "x"}, "create_user": 7, "Email": 1},
        {"code_challenge": "", "code_challenge_method": "", "phone": ""},
        {"channel": "carrier pigeon"},
    ],
)
def test_null_empty_and_unknown_keys_are_treated_as_absent(api: Api, further: dict[str, Any]) -> None:
    response = api.post("/signup", {**SIGN_UP, **further})
    assert response.status_code == 200
    assert set(response.json()["user_metadata"]) == {"sub", "email", "email_verified", "phone_verified"}


def test_the_last_of_two_equal_keys_counts(api: Api) -> None:
    body = f'{{"email":"first@example.com","email":"{EMAIL}","password":"{PASSWORD}"}}'
    assert api.post("/signup", body).json()["email"] == EMAIL


def test_the_role_of_a_new_account_is_the_configured_group_without_blanks(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"default_group_name": " member "})
    assert api.post("/signup", SIGN_UP).json()["role"] == "member"


def test_without_an_audience_the_empty_one_is_used(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(jwt={"aud": ""}, mailer={"autoconfirm": True})
    session = read_session(api.post("/signup", SIGN_UP))
    assert session["user"]["aud"] == ""
    assert access_tokens.decode(session["access_token"], at=timezone.now()).raw["aud"] == ""
    assert api.get("/user", bearer=session["access_token"]).status_code == 200
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200


def test_a_request_can_name_another_audience(api: Api) -> None:
    assert api.post("/signup", SIGN_UP, headers={"X-JWT-AUD": "staff"}).json()["aud"] == "staff"


def test_challenge_starts_flow(api: Api, mailbox: Mailbox) -> None:
    response = api.post("/signup", {**SIGN_UP, "code_challenge": CHALLENGE, "code_challenge_method": "S256"})
    assert response.status_code == 200
    flow = FlowState.objects.get()
    assert str(flow.user_id) == response.json()["id"]
    assert (flow.provider_type, flow.authentication_method) == ("email", "email/signup")
    assert (flow.code_challenge, flow.code_challenge_method) == (CHALLENGE, "s256")
    assert flow.auth_code_issued_at is None
    assert flow.auth_code is None
    assert token_row().token_hash.startswith("pkce_")
    assert mailbox.emails[0].variables["TokenHash"].startswith("pkce_")
    assert not mailbox.emails[0].variables["Token"].startswith("pkce_")


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ({"path": "/signup?redirect_to=http://localhost:3000/in"}, "http://localhost:3000/in"),
        ({"path": "/signup?redirect_to=https://evil.example"}, "http://localhost:3000"),
        ({"path": "/signup", "headers": {"Referer": "http://localhost:3000/page"}}, "http://localhost:3000/page"),
        (
            {
                "path": "/signup?redirect_to=http://localhost:3000/q",
                "headers": {"Redirect-To": "http://localhost:3000/h"},
            },
            "http://localhost:3000/h",
        ),
        (
            {"path": "/signup?redirect_to=https://evil.example", "headers": {"Referer": "http://localhost:3000/r"}},
            "http://localhost:3000/r",
        ),
        ({"path": "/signup", "body": {**SIGN_UP, "redirect_to": "http://localhost:3000/b"}}, "http://localhost:3000"),
    ],
)
def test_the_link_redirects_to_an_allowed_target(api: Api, mailbox: Mailbox, sent: dict[str, Any], target: str) -> None:
    api.post(sent["path"], sent.get("body", SIGN_UP), headers=sent.get("headers"))
    variables = mailbox.emails[0].variables
    assert variables["RedirectTo"] == target
    assert variables["ConfirmationURL"].endswith(f"&redirect_to={target}")


# Errors; each request also has every fault that is checked later


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        (
            {"signup": {"disabled": True}},
            {"email": "x", "phone": "x"},
            (422, "signup_disabled", "Signups not allowed for this instance"),
        ),
        ({}, {"email": "x", "phone": "x"}, (400, "validation_failed", "Signup requires a valid password")),
        ({}, {"email": "x", "password": ""}, (400, "validation_failed", "Signup requires a valid password")),
        ({}, {"email": "x", "password": None}, (400, "validation_failed", "Signup requires a valid password")),
        (
            {},
            {"email": "x", "phone": "x", "password": "x" * 73},
            (400, "validation_failed", "Password cannot be longer than 72 characters"),
        ),
        (
            {},
            {"email": "x", "phone": "x", "password": "ü" * 37},
            (400, "validation_failed", "Password cannot be longer than 72 characters"),
        ),
        (
            {},
            {"email": "x", "phone": "x", "password": PASSWORD, "channel": "x"},
            (400, "validation_failed", "Only an email address or phone number should be provided on signup."),
        ),
        (
            {},
            {"phone": "x", "password": PASSWORD, "channel": "pigeon", "code_challenge": "x"},
            (400, "validation_failed", CHANNEL_INVALID),
        ),
        (
            {"sms": {"provider": "vonage"}},
            {"phone": "x", "password": PASSWORD, "channel": "whatsapp", "code_challenge": "x"},
            (400, "validation_failed", CHANNEL_INVALID),
        ),
        (
            {"sms": {"provider": "twilio"}},
            {"phone": "x", "password": PASSWORD, "channel": "whatsapp", "code_challenge": "x"},
            (400, "validation_failed", "PKCE not supported for phone signups"),
        ),
        (
            {"signup": {"email_enabled": False}},
            {"email": "x", "password": PASSWORD, "code_challenge": CHALLENGE},
            (400, "validation_failed", PKCE_INCOMPLETE),
        ),
        (
            {"signup": {"email_enabled": False}},
            {"email": "x", "password": PASSWORD, "code_challenge_method": "s256"},
            (400, "validation_failed", PKCE_INCOMPLETE),
        ),
        (
            {"signup": {"email_enabled": False}},
            {"email": "x", "password": PASSWORD, "code_challenge": CHALLENGE, "code_challenge_method": "S512"},
            (400, "validation_failed", PKCE_INCOMPLETE),
        ),
        *(
            (
                {"signup": {"email_enabled": False}},
                {"email": "x", "password": PASSWORD, "code_challenge": "c" * length, "code_challenge_method": "s256"},
                (400, "validation_failed", "code challenge has to be between 43 and 128 characters"),
            )
            for length in (42, 129)
        ),
        (
            {"signup": {"email_enabled": False}},
            {"email": "x", "password": PASSWORD, "code_challenge": "c" * 42 + "+", "code_challenge_method": "s256"},
            (
                400,
                "validation_failed",
                "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
            ),
        ),
        (
            {"signup": {"email_enabled": False}},
            {"email": "x", "password": PASSWORD},
            (400, "email_provider_disabled", "Email signups are disabled"),
        ),
        ({}, {"phone": "x", "password": PASSWORD}, (400, "phone_provider_disabled", "Phone signups are disabled")),
        *(
            (
                {},
                {"email": address, "password": PASSWORD},
                (400, "validation_failed", "Unable to validate email address: invalid format"),
            )
            for address in ("a", " a@b.co", "a@b.co ", "a@-b.co", "a@b..co", "a@b@c.co", "ü@b.co", '"a b"@b.co')
        ),
        (
            {},
            {"email": "a" * 244 + "@example.com", "password": PASSWORD},
            (400, "validation_failed", "An email address is too long"),
        ),
        *(
            (
                {"signup": {"phone_enabled": True}},
                {"phone": number, "password": PASSWORD},
                (400, "validation_failed", "Invalid phone number format (E.164 required)"),
            )
            for number in ("0123456789", "abc", "1", "1" * 16, "++15551234567")
        ),
        (
            {"signup": {"phone_enabled": True}},
            {"phone": PHONE, "password": PASSWORD},
            (500, "unexpected_failure", "Unable to get SMS provider"),
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
    auth_config(**config)
    before = table_contents()
    response = api.post("/signup", body)
    further = {"error_id": response.json().get("error_id")} if refusal[0] == 500 else {}
    assert_error(response, *refusal, **further)
    assert table_contents() == before
    assert mailbox.emails == []


@pytest.mark.parametrize("address", ["a@localhost", "a" * 243 + "@example.com", "o'neil+x@b.co", "a@1.2"])
def test_unusual_addresses_are_accepted(api: Api, address: str) -> None:
    assert api.post("/signup", {"email": address, "password": PASSWORD}).json()["email"] == address


@pytest.mark.parametrize(
    ("config", "password", "reasons", "text"),
    [
        ({}, "12345", ["length"], TOO_SHORT),
        ({"min_length": 3}, "12345", ["length"], TOO_SHORT),
        ({"min_length": 9}, "12345678", ["length"], "Password should be at least 9 characters."),
        ({"min_length": 9}, "ü" * 8, ["length"], "Password should be at least 9 characters."),
        (
            {"required_characters": ("a", "b", "c")},
            "123",
            ["length", "characters"],
            f"{TOO_SHORT} Password should contain at least one character of each: a, b, c.",
        ),
        (
            {"required_characters": ("a", "b", "c")},
            "ab1234",
            ["characters"],
            "Password should contain at least one character of each: a, b, c.",
        ),
    ],
)
def test_weak_password_is_rejected_with_reasons(
    api: Api, auth_config: ChangeConfig, config: dict[str, Any], password: str, reasons: list[str], text: str
) -> None:
    auth_config(passwords=config)
    body = {"email": "x", "phone": "x", "password": password}
    assert_error(api.post("/signup", body), 422, "weak_password", text, weak_password={"reasons": reasons})
    versioned = api.post("/signup", body, headers={"X-Supabase-Api-Version": "2024-01-01"})
    assert versioned.json() == {"code": "weak_password", "message": text, "weak_password": {"reasons": reasons}}
    assert not User.objects.exists()


@pytest.mark.parametrize("password", ["sechs!", "ü" * 36, "x" * 72])
def test_passwords_of_every_permitted_length_are_accepted(api: Api, password: str) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": password}).status_code == 200
    assert hashing.verify_password(password, User.objects.get().password)


# Without an address


@pytest.mark.parametrize("body", [{}, "null", {"email": "", "phone": ""}, {"password": PASSWORD, "data": {"a": 1}}])
def test_anonymous_sign_ins_are_disabled_by_default(api: Api, auth_config: ChangeConfig, body: Any) -> None:
    auth_config(signup={"disabled": True})
    before = table_contents()
    assert_error(api.post("/signup", body), 422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled")
    assert table_contents() == before


def test_anonymous_user_has_only_session(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"anonymous_enabled": True})
    session = read_session(api.post("/signup", {"data": {"a": 1, "b": None}, "password": PASSWORD}))
    shown = session["user"]
    assert shown["is_anonymous"] is True
    assert (shown["email"], shown["phone"], shown["identities"]) == ("", "", [])
    assert (shown["app_metadata"], shown["user_metadata"]) == ({}, {"a": 1})
    assert [name for name in shown if name.endswith("_at")] == ["last_sign_in_at", "created_at", "updated_at"]
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert claims.is_anonymous is True
    assert [entry.method for entry in claims.amr] == ["anonymous"]
    user = User.objects.get()
    assert (user.email, user.phone, user.password, user.is_anonymous) == (None, None, "", True)
    assert user.role == "authenticated"
    assert not Identity.objects.exists()
    assert audit_trail() == []
    assert api.get("/user", bearer=session["access_token"]).json() == shown


def test_anonymous_sign_ins_require_enabled_sign_ups(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"anonymous_enabled": True, "disabled": True})
    assert_error(api.post("/signup", {}), 422, "signup_disabled", "Signups not allowed for this instance")
    assert not User.objects.exists()


def test_anonymous_sign_ins_of_one_client_are_limited(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"anonymous_enabled": True}, limits={"anonymous_users": 5.0})
    for _ in range(5):
        assert api.post("/signup", {}).status_code == 200
    assert_error(api.post("/signup", {}), 429, "over_request_rate_limit", "Request rate limit reached")
    assert api.post("/signup", SIGN_UP).status_code == 200


# Session and request details


def test_session_stores_ip_address_of_client(auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    for number, (peer, forwarded, expected) in enumerate(
        [
            ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
            ("10.0.0.1", "203.0.113.1, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("", "", None),
        ]
    ):
        email = f"user{number}@example.com"
        response = Client(REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded).generic(
            "POST", "/signup", f'{{"email":"{email}","password":"{PASSWORD}"}}'
        )
        assert response.status_code == 200
        assert Session.objects.get(user__email=email).ip == expected


def test_disabled_audit_table_stores_no_entry(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(audit={"disable_postgres": True})
    assert api.post("/signup", SIGN_UP).status_code == 200
    assert audit_trail() == []
    assert User.objects.count() == OneTimeToken.objects.count() == 1


def test_an_undeliverable_email_rolls_everything_back(api: Api) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE procrastinate_jobs RENAME TO procrastinate_jobs_away")
    try:
        response = api.post("/signup", SIGN_UP)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE procrastinate_jobs_away RENAME TO procrastinate_jobs")
    assert response.status_code == 500
    assert not User.objects.exists()
    assert not OneTimeToken.objects.exists()
    assert audit_trail() == []
