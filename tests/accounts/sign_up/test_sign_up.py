"""POST /signup: order of errors, results for each kind of account, and stored rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from authsvc.api.renderers import rfc3339
from authsvc.conf import AuthConfig, Rate
from authsvc.messaging import EmailType
from tests.conftest import Api, ApiResponse, Mailbox, read_success
from tests.factories import CHALLENGE, PASSWORD, make_factor, make_one_time_token, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, backdate_rate_limits, table_contents
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PHONE = "15551234567"
SIGN_UP = {"email": EMAIL, "password": PASSWORD}

USER_KEYS = [
    "id", "aud", "role", "email", "phone", "confirmation_sent_at", "app_metadata", "user_metadata", "identities",
    "created_at", "updated_at", "is_anonymous",
]  # fmt: skip
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


def read_session(response: ApiResponse) -> dict[str, Any]:
    """The session of a response that is one."""
    session = read_success(response)
    assert list(session) == ["access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user"]
    assert (session["token_type"], session["expires_in"]) == ("bearer", 3600)
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert (claims.exp, claims.sub) == (session["expires_at"], session["user"]["id"])
    return session


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


# Auto-confirm


def test_auto_confirm_signs_new_account_in(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(mailer={"autoconfirm": True})
    further = {"data": {"a": 1}, "code_challenge": CHALLENGE, "code_challenge_method": "plain"}
    session = read_session(api.post("/signup", {**SIGN_UP, **further}, headers={"User-Agent": "tests"}))

    shown = session["user"]
    moment = shown["created_at"]
    assert [name for name in shown if name.endswith("_at")] == [
        "email_confirmed_at", "confirmed_at", "last_sign_in_at", "created_at", "updated_at",
    ]  # fmt: skip
    assert {value for name, value in shown.items() if name.endswith("_at")} == {moment}
    assert shown["user_metadata"] == {
        "sub": shown["id"], "email": EMAIL, "email_verified": True, "phone_verified": False, "a": 1,
    }  # fmt: skip
    user = User.objects.get()
    assert user.email_confirmed_at == user.last_sign_in_at == user.created_at
    assert user.confirmation_sent_at is None
    assert user.raw_user_meta_data == shown["user_metadata"]
    row = Session.objects.get()
    assert (row.user_id, row.aal, row.user_agent, row.ip) == (user.id, "aal1", "tests", "127.0.0.1")
    assert (row.refresh_token_counter, row.not_after, row.refreshed_at) == (0, None, None)
    assert list(AmrClaim.objects.values_list("authentication_method", flat=True)) == ["password"]
    assert audit_trail() == [("user_signedup", {"provider": "email"}), ("login", {"provider": "email"})]
    assert not OneTimeToken.objects.exists()
    assert not FlowState.objects.exists()
    assert mailbox.emails == []
    assert api.get("/user", bearer=session["access_token"]).json() == shown


def test_auto_confirm_confirms_unconfirmed_account(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, data={"old": 1})
    make_one_time_token(user, TokenType.CONFIRMATION)
    make_one_time_token(user, TokenType.RECOVERY)
    auth_config(mailer={"autoconfirm": True})
    shown = read_session(api.post("/signup", {**SIGN_UP, "data": {"new": 2}}))["user"]

    assert shown["id"] == str(user.id)
    assert shown["email_confirmed_at"] == shown["last_sign_in_at"] == shown["confirmed_at"]
    assert shown["user_metadata"] == {
        "sub": str(user.id), "email": EMAIL, "email_verified": True, "phone_verified": False, "new": 2,
    }  # fmt: skip
    after = User.objects.get()
    assert hashing.verify_password(PASSWORD, after.password)
    assert after.raw_user_meta_data == shown["user_metadata"]
    assert audit_trail() == [("user_signedup", {"provider": "email"}), ("login", {"provider": "email"})]
    assert not OneTimeToken.objects.exists()
    assert mailbox.emails == []


@pytest.mark.parametrize("columns", [{}, {"confirmed": False}, {"confirmed": False, "invited_at": timezone.now()}])
def test_an_account_with_another_password_is_an_error_with_auto_confirm(
    api: Api, auth_config: ChangeConfig, columns: dict[str, Any]
) -> None:
    make_user(email=EMAIL, password="the former one", **columns)
    auth_config(mailer={"autoconfirm": True})
    before = table_contents()
    assert_error(api.post("/signup", SIGN_UP), 422, "user_already_exists", "User already registered")
    assert table_contents() == before


def test_auto_confirm_signs_new_phone_in(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"autoconfirm": True})
    session = read_session(api.post("/signup", {"phone": "+1 555 1234567", "password": PASSWORD, "data": {"a": 1}}))
    shown = session["user"]
    known = {"sub": shown["id"], "email_verified": False, "phone_verified": False, "a": 1}
    assert (shown["email"], shown["phone"]) == ("", PHONE)
    assert shown["app_metadata"] == {"provider": "phone", "providers": ["phone"]}
    assert shown["user_metadata"] == known
    assert shown["phone_confirmed_at"] == shown["confirmed_at"]
    assert "email_confirmed_at" not in shown
    (identity,) = shown["identities"]
    assert (identity["provider"], identity["id"], identity["identity_data"]) == ("phone", shown["id"], known)
    assert "email" not in identity
    assert audit_trail() == [
        ("user_signedup", {"provider": "phone", "channel": "sms"}), ("login", {"provider": "phone"}),
    ]  # fmt: skip
    assert audit_payloads()[0]["actor_username"] == PHONE
    assert api.post("/token?grant_type=password", {"phone": "+1 5551234567", "password": PASSWORD}).status_code == 200


def test_confirmed_phone_is_error_with_auto_confirm(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    auth_config(signup={"phone_enabled": True}, sms={"autoconfirm": True})
    before = table_contents()
    response = api.post("/signup", {"phone": PHONE, "password": PASSWORD})
    assert_error(response, 400, "user_already_exists", "User already registered")
    assert table_contents() == before


# An unconfirmed address


def test_a_repeated_sign_up_replaces_data_and_email(api: Api, mailbox: Mailbox) -> None:
    first = api.post("/signup", {**SIGN_UP, "data": {"n": 1, "x": 1}}).json()
    backdate_rate_limits(timedelta(minutes=15, seconds=1))
    response = api.post("/signup", {**SIGN_UP, "data": {"n": 2}})

    second = response.json()
    assert list(second) == USER_KEYS
    assert second["id"] == first["id"]
    assert second["created_at"] == first["created_at"]
    assert second["confirmation_sent_at"] > first["confirmation_sent_at"]
    assert second["user_metadata"]["n"] == 2
    assert "x" not in second["user_metadata"]
    assert second["identities"][0]["identity_data"] == second["user_metadata"]
    assert second["identities"][0]["identity_id"] == first["identities"][0]["identity_id"]
    user = User.objects.get()
    assert hashing.verify_password(PASSWORD, user.password)
    assert user.raw_user_meta_data == second["user_metadata"]
    assert Identity.objects.get().identity_data == second["user_metadata"]
    assert audit_trail() == [("user_confirmation_requested", {"provider": "email"})] * 2
    old, new = mailbox.emails
    former = api.get(f"/verify?type=signup&token={old.variables['TokenHash']}")
    assert "error_code=otp_expired" in former.headers["Location"]
    body = {"type": "signup", "email": EMAIL, "token": old.variables["Token"]}
    assert api.post("/verify", body).status_code == (403 if old.variables["Token"] != new.variables["Token"] else 200)
    assert api.post("/verify", {"type": "signup", "token_hash": new.variables["TokenHash"]}).status_code == 200
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200


def test_a_sign_up_reveals_no_invitation(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, password="", confirmed=False, data={"salary": 7}, invited_at=timezone.now())
    before = {name: content for name, content in table_contents().items() if name != "audit_log_entries"}
    shown = api.post("/signup", {**SIGN_UP, "data": {"mine": 1}}).json()
    assert shown["id"] != str(user.id)
    assert list(shown) == USER_KEYS
    assert shown["user_metadata"]["mine"] == 1
    assert mailbox.emails == []
    assert {name: content for name, content in table_contents().items() if name != "audit_log_entries"} == before


def test_a_repeated_sign_up_keeps_the_audience_and_the_role(api: Api) -> None:
    make_user(email=EMAIL, confirmed=False, role="member")
    shown = api.post("/signup", SIGN_UP).json()
    assert (shown["aud"], shown["role"]) == ("authenticated", "member")


def test_an_address_of_another_audience_is_a_duplicate(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, audience="staff")
    shown = api.post("/signup", SIGN_UP).json()
    assert shown["id"] != str(user.id)
    assert (shown["aud"], shown["role"], len(shown["identities"])) == ("authenticated", "authenticated", 1)
    assert audit_trail() == [("user_repeated_signup", {"provider": "email"})]
    assert mailbox.emails == []


def test_address_gets_no_session_when_only_phone_is_confirmed(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, phone=PHONE, phone_confirmed_at=timezone.now())
    response = api.post("/signup", SIGN_UP)
    assert response.json()["id"] != str(user.id)
    assert "access_token" not in response.json()
    assert len(mailbox.emails) == 1
    assert not Session.objects.exists()
    user.refresh_from_db()
    assert (user.email, user.email_change, user.phone) == (None, EMAIL, PHONE)


def test_an_sso_account_does_not_own_its_address(api: Api) -> None:
    sso = make_user(email=EMAIL, is_sso_user=True)
    shown = api.post("/signup", SIGN_UP).json()
    assert shown["id"] != str(sso.id)
    assert len(shown["identities"]) == 1
    assert User.objects.count() == 2


# A confirmed address


def test_a_confirmed_address_gets_a_fabricated_user(api: Api, mailbox: Mailbox) -> None:
    user = make_user(
        email=EMAIL,
        data={"secret": 1},
        phone=PHONE,
        phone_confirmed_at=timezone.now(),
        invited_at=timezone.now(),
        recovery_sent_at=timezone.now(),
        email_change="new@example.com",
        email_change_sent_at=timezone.now(),
        last_sign_in_at=timezone.now(),
        banned_until=timezone.now() + timedelta(days=1),
        role="svc_admin",
        raw_app_meta_data={"provider": "google", "providers": ["google"], "plan": "gold"},
    )
    make_factor(user)
    before = {name: content for name, content in table_contents().items() if name != "audit_log_entries"}
    response = api.post("/signup", {"email": "User@Example.com", "password": "another password", "data": {"a": 1}})

    assert response.status_code == 200
    shown = response.json()
    assert list(shown) == USER_KEYS
    moment = shown["created_at"]
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False, "a": 1}
    assert shown == {
        "id": shown["id"],
        "aud": "authenticated",
        "role": "authenticated",
        "email": EMAIL,
        "phone": "",
        "confirmation_sent_at": moment,
        "app_metadata": {"provider": "email", "providers": ["email"]},
        "user_metadata": known,
        "identities": [
            {
                "identity_id": shown["identities"][0]["identity_id"],
                "id": shown["id"],
                "user_id": shown["id"],
                "identity_data": known,
                "provider": "email",
                "last_sign_in_at": moment,
                "created_at": moment,
                "updated_at": moment,
                "email": EMAIL,
            }
        ],
        "created_at": moment,
        "updated_at": moment,
        "is_anonymous": False,
    }
    assert UUID(shown["id"]).version == 4
    assert shown["id"] != str(user.id)
    assert {name: content for name, content in table_contents().items() if name != "audit_log_entries"} == before
    assert audit_payloads() == [
        {
            "action": "user_repeated_signup",
            "actor_id": str(user.id),
            "actor_username": PHONE,
            "actor_via_sso": False,
            "log_type": "user",
            "traits": {"provider": "email"},
        }
    ]
    assert mailbox.emails == []


def test_fabricated_users_have_different_ids(api: Api) -> None:
    make_user(email=EMAIL)
    ids = set()
    for _ in range(3):
        ids.add(api.post("/signup", SIGN_UP).json()["id"])
        backdate_rate_limits(timedelta(hours=1))
    assert len(ids) == 3


def test_a_fabricated_user_and_a_new_account_differ_only_in_the_documented_members(api: Api) -> None:
    make_user(email=EMAIL)
    new = api.post("/signup", {"email": "new@example.com", "password": PASSWORD})
    known = api.post("/signup", SIGN_UP)
    assert list(new.json()) == list(known.json())
    differing = {name for name in USER_KEYS if type(new.json()[name]) is not type(known.json()[name])}
    assert differing == set()
    assert {**new.headers} == {**known.headers}
    assert new.status_code == known.status_code


# Interval and quota


@pytest.mark.parametrize("account", ["new", "unconfirmed", "confirmed", "banned", "of another audience"])
def test_the_interval_between_sign_ups_is_the_same_for_every_address(
    api: Api, auth_config: ChangeConfig, mailbox: Mailbox, account: str
) -> None:
    match account:
        case "unconfirmed":
            make_user(email=EMAIL, confirmed=False)
        case "confirmed":
            make_user(email=EMAIL)
        case "banned":
            make_user(email=EMAIL, banned_until=timezone.now() + timedelta(days=1))
        case "of another audience":
            make_user(email=EMAIL, audience="staff")
    assert api.post("/signup", SIGN_UP).status_code == 200
    before, sent = table_contents(), len(mailbox.emails)
    second = api.post("/signup", {**SIGN_UP, "email": "USER@example.com"})
    text = "For security purposes, you can only request this after 899 seconds."
    assert_error(second, 429, "over_email_send_rate_limit", text)
    assert int(second.headers["Retry-After"]) in range(870, 900)
    assert table_contents() == before
    assert len(mailbox.emails) == sent
    backdate_rate_limits(timedelta(seconds=890))
    third = api.post("/signup", SIGN_UP)
    assert third.status_code == 429
    assert 1 <= int(third.headers["Retry-After"]) <= 10
    backdate_rate_limits(timedelta(seconds=11))
    assert api.post("/signup", SIGN_UP).status_code == 200


def test_a_configured_interval_replaces_the_default(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(seconds=60)})
    api.post("/signup", SIGN_UP)
    text = "For security purposes, you can only request this after 59 seconds."
    assert_error(api.post("/signup", SIGN_UP), 429, "over_email_send_rate_limit", text)


def test_interval_does_not_apply_to_other_address(api: Api) -> None:
    api.post("/signup", SIGN_UP)
    assert api.post("/signup", {**SIGN_UP, "email": "other@example.com"}).status_code == 200


def test_auto_confirmed_sign_ups_have_no_interval(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    assert api.post("/signup", SIGN_UP).status_code == 200
    assert api.post("/signup", SIGN_UP).status_code == 422


def test_the_email_quota_is_shared_by_all_addresses(api: Api, auth_config: ChangeConfig, mailbox: Mailbox) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    assert api.post("/signup", SIGN_UP).status_code == 200
    before = table_contents()
    response = api.post("/signup", {**SIGN_UP, "email": "other@example.com"})
    assert_error(response, 429, "over_email_send_rate_limit", "email rate limit exceeded")
    assert table_contents() == before
    assert len(mailbox.emails) == 1


def test_requests_of_one_client_are_limited_after_the_body_is_read(api: Api) -> None:
    for _ in range(30):
        assert api.post("/signup", {"email": "x"}).status_code == 400
    response = api.post("/signup", SIGN_UP)
    assert_error(response, 429, "over_request_rate_limit", "Request rate limit reached")
    assert int(response.headers["Retry-After"]) in range(1, 11)
    assert api.post("/signup", "{").json()["error_code"] == "bad_json"
    assert api.post("/signup", SIGN_UP, headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 200
    assert api.post("/signup", {}).json()["error_code"] == "anonymous_provider_disabled"


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
