"""POST /verify: links and codes, their effects on the account, and the order of errors."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.accounts.verification.verify_requests import (
    BANNED,
    EMAIL,
    LINK_DEAD,
    LOGIN,
    SIGNED_UP,
    SITE,
    assert_link_error,
    open_link,
    read_session,
)
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import backdate, make_one_time_token, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.jwt import access_tokens
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

CODE_DEAD = (403, "otp_expired", "Token has expired or is invalid")


@pytest.mark.parametrize(
    ("type", "purpose", "returned_type"),
    [
        ("signup", TokenType.CONFIRMATION, "signup"),
        ("invite", TokenType.CONFIRMATION, "invite"),
        ("email", TokenType.CONFIRMATION, "signup"),
        ("recovery", TokenType.RECOVERY, "recovery"),
        ("magiclink", TokenType.RECOVERY, None),
        ("email", TokenType.RECOVERY, None),
    ],
)
@pytest.mark.parametrize("form", ["code", "upper-case address", "token_hash", "token"])
def test_every_form_of_verification_signs_in(
    api: Api, type: str, purpose: TokenType, returned_type: str | None, form: str
) -> None:
    user = make_user(email=EMAIL, confirmed=purpose == TokenType.RECOVERY)
    secret = make_one_time_token(user, purpose)
    forms: dict[str, dict[str, Any]] = {
        "code": {"email": EMAIL, "token": secret.code, "redirect_to": "https://evil.example", "options": {}},
        "upper-case address": {"email": "USER@Example.com", "token": secret.code},
        "token_hash": {"token_hash": secret.link_token},
        "token": {"token": secret.link_token, "redirect_to": SITE},
    }
    session = read_session(api.post("/verify", {"type": type, **forms[form]}), returned_type)
    shown = session["user"]
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert [entry.method for entry in claims.amr] == ["otp"]
    assert shown["email_confirmed_at"] == shown["confirmed_at"]
    assert shown["user_metadata"].get("email_verified") is True
    assert api.get("/user", bearer=session["access_token"]).json() == shown
    assert audit_trail() == [SIGNED_UP if purpose == TokenType.CONFIRMATION else LOGIN]
    assert not OneTimeToken.objects.exists()


def test_response_contains_confirmed_account(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    shown = api.post("/verify", {"type": "signup", "token_hash": secret.link_token}).json()["user"]
    assert shown["identities"][0]["identity_data"]["email_verified"] is True
    assert shown["email_confirmed_at"] == shown["last_sign_in_at"] == shown["updated_at"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({}, (400, "validation_failed", "Verify requires a verification type")),
        ({"token": "x", "token_hash": "x"}, (400, "validation_failed", "Verify requires a verification type")),
        ({"type": ""}, (400, "validation_failed", "Verify requires a verification type")),
        ({"type": "x"}, (400, "validation_failed", "Verify requires either a token or a token hash")),
        (
            {"type": "x", "token": "x", "token_hash": "x", "email": "x"},
            (400, "validation_failed", "Verify requires either a token or a token hash"),
        ),
        (
            {"type": "x", "token": "", "token_hash": "", "email": EMAIL},
            (400, "validation_failed", "Verify requires either a token or a token hash"),
        ),
        *(
            (
                {"type": "x", "token": token},
                (400, "validation_failed", "Only an email address or phone number should be provided on verify"),
            )
            for token in ("some-token", "123456", "A" * 56, "0" * 55, "0" * 57, "pkce_" + "0" * 55)
        ),
        (
            {"type": "x", "token": "123456", "email": EMAIL, "phone": "15551234567"},
            (400, "validation_failed", "Only an email address or phone number should be provided on verify"),
        ),
        *(
            (
                {"type": "sms", "token": "123456", "phone": phone},
                (400, "validation_failed", "Invalid phone number format (E.164 required)"),
            )
            for phone in ("15551234567-invalid", "0", "x")
        ),
        *(
            ({"type": "x", "token": "123456", "email": address}, (422, "validation_failed", "Invalid email format"))
            for address in ("not-an-address", "a@b..c", " user@example.com", "a" * 251 + "@b.co")
        ),
        *(
            (
                {"type": "x", "token_hash": "x", **further},
                (400, "validation_failed", "Only the token_hash and type should be provided"),
            )
            for further in ({"email": EMAIL}, {"phone": "1"}, {"redirect_to": SITE})
        ),
        *(
            (
                {"type": type, "token_hash": "0" * 56},
                (400, "validation_failed", "Invalid email verification type"),
            )
            for type in ("sms", "phone_change", "x", "reauthentication")
        ),
        ({"type": "signup", "token_hash": "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token_hash": "x"}, LINK_DEAD),
        ({"type": "signup", "token": "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token": "pkce_" + "0" * 56}, LINK_DEAD),
        ({"type": "signup", "token": "123456", "email": "unknown@example.com"}, CODE_DEAD),
        ({"type": "no such type", "token": "123456", "email": EMAIL}, CODE_DEAD),
        ({"type": "sms", "token": "123456", "phone": "15551234567"}, CODE_DEAD),
        ({"type": "phone_change", "token": "123456", "phone": "+1 5551234567"}, CODE_DEAD),
    ],
)
def test_errors_have_documented_order(api: Api, body: dict[str, str], refusal: tuple[int, str, str]) -> None:
    make_one_time_token(make_user(email=EMAIL), token_type=TokenType.REAUTHENTICATION)
    before = table_contents()
    assert_error(api.post("/verify", body), *refusal)
    assert table_contents() == before


def test_wrong_code_is_counted_and_redeems_nothing(api: Api) -> None:
    user = make_user(email=EMAIL)
    secret = make_one_time_token(user)
    wrong = f"{(int(secret.code) + 1) % 10**6:06d}"
    body = {"type": "recovery", "email": EMAIL, "token": wrong}
    assert_error(api.post("/verify", body), *CODE_DEAD)
    assert OneTimeToken.objects.get().attempts == 1
    assert audit_trail() == []
    read_session(api.post("/verify", {**body, "token": secret.code}), "recovery")


def test_wrong_code_is_counted_on_all_compared_secrets(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    for purpose in (TokenType.CONFIRMATION, TokenType.RECOVERY, TokenType.REAUTHENTICATION):
        make_one_time_token(user, purpose, attempts=3)
    api.post("/verify", {"type": "email", "email": EMAIL, "token": "no code"})
    counted = dict(OneTimeToken.objects.values_list("token_type", "attempts"))
    assert counted == {"confirmation_token": 4, "recovery_token": 4, "reauthentication_token": 3}


@pytest.mark.parametrize(
    ("limit", "attempts", "alive"), [(10, 9, True), (10, 10, False), (2, 2, False), (0, 999, True)]
)
def test_too_many_wrong_codes_invalidate_code_and_keep_link(
    api: Api, auth_config: ChangeConfig, limit: int, attempts: int, alive: bool
) -> None:
    auth_config(codes={"max_attempts": limit})
    secret = make_one_time_token(make_user(email=EMAIL), attempts=attempts)
    response = api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code})
    if alive:
        read_session(response, "recovery")
    else:
        assert_error(response, *CODE_DEAD)
        read_session(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}), "recovery")


def test_ten_wrong_codes_invalidate_code(api: Api, auth_config: ChangeConfig) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    for _ in range(10):
        assert_error(api.post("/verify", {"type": "email", "email": EMAIL, "token": "wrong"}), *CODE_DEAD)
    assert_error(api.post("/verify", {"type": "email", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_a_new_email_invalidates_the_previous_code_and_link(api: Api, mailbox: Mailbox) -> None:
    make_user(email=EMAIL)
    api.post("/recover", {"email": EMAIL})
    backdate_rate_limits(timedelta(minutes=2))
    api.post("/recover", {"email": EMAIL})
    old, new = (mail.variables for mail in mailbox.emails)
    assert OneTimeToken.objects.count() == 1
    assert_link_error(open_link(api, old["TokenHash"], "recovery"), "otp_expired", LINK_DEAD[2])
    read_session(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": new["Token"]}), "recovery")


@pytest.mark.parametrize("first", ["code", "link"])
def test_code_and_link_are_one_secret(api: Api, first: str) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    by_code = {"type": "recovery", "email": EMAIL, "token": secret.code}
    by_link = {"type": "recovery", "token_hash": secret.link_token}
    one, other = (by_code, by_link) if first == "code" else (by_link, by_code)
    read_session(api.post("/verify", one), "recovery")
    assert_error(api.post("/verify", other), *(LINK_DEAD if other is by_link else CODE_DEAD))
    assert_error(api.post("/verify", one), *(LINK_DEAD if one is by_link else CODE_DEAD))


def test_a_verification_invalidates_the_other_secrets_of_that_user_only(api: Api) -> None:
    user, other = make_user(email=EMAIL), make_user()
    secret = make_one_time_token(user)
    for purpose in (TokenType.EMAIL_CHANGE_NEW, TokenType.EMAIL_CHANGE_CURRENT, TokenType.REAUTHENTICATION):
        make_one_time_token(user, purpose)
    make_one_time_token(other)
    read_session(api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}), "recovery")
    assert list(OneTimeToken.objects.values_list("user_id", flat=True)) == [other.id]


def test_a_code_is_valid_with_its_address_only(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    make_one_time_token(make_user(email="other@example.com"))
    assert_error(
        api.post("/verify", {"type": "recovery", "email": "other@example.com", "token": secret.code}), *CODE_DEAD
    )
    read_session(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), "recovery")


def test_a_code_is_valid_in_its_audience_only(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    body = {"type": "recovery", "email": EMAIL, "token": secret.code}
    assert_error(api.post("/verify", body, headers={"X-JWT-AUD": "staff"}), *CODE_DEAD)
    read_session(api.post("/verify", body), "recovery")


def test_code_of_sso_account_is_rejected(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL, is_sso_user=True))
    assert_error(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_expired_code_is_rejected(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL))
    backdate(OneTimeToken.objects.get(), by=timedelta(days=1, seconds=1))
    assert_error(api.post("/verify", {"type": "recovery", "email": EMAIL, "token": secret.code}), *CODE_DEAD)


def test_a_ban_is_reported_after_the_correct_code(api: Api) -> None:
    secret = make_one_time_token(make_user(email=EMAIL, banned_until=timezone.now() + timedelta(hours=1)))
    body = {"type": "recovery", "email": EMAIL, "token": "wrong"}
    assert_error(api.post("/verify", body), *CODE_DEAD)
    assert_error(api.post("/verify", {**body, "token": secret.code}), *BANNED)
    assert not Session.objects.exists()


def test_confirmation_precedes_recovery_with_same_code(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    make_one_time_token(user, token_hash=OneTimeToken.objects.get().token_hash)
    read_session(api.post("/verify", {"type": "email", "email": EMAIL, "token": secret.code}), "signup")
