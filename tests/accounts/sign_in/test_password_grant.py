"""POST /token?grant_type=password: one error before the password is verified, specific errors after it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc.conf import AuthConfig, Secret
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD, backdate, make_one_time_token, make_session, make_user
from tests.observations import SECURITY_HEADERS, assert_error, audit_payloads, audit_trail, table_contents
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@example.com"
PHONE = "15551234567"
INVALID = (400, "invalid_credentials", "Invalid login credentials")
TOO_SHORT = "Password should be at least 40 characters."
OUR_HASH = "$argon2id$v=19$m=19456,t=2,p=1$"
# The password `test` in imported formats.
IMPORTED = {
    "bcrypt 2y": "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu",
    "argon2i": "$argon2i$v=19$m=16,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g",
    "argon2id": "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk",
}
FIREBASE = (
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2g6"
    "AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+hfTw=="
)


def sign_in(api: Api, email: str = EMAIL, password: str = PASSWORD, **options: Any) -> ApiResponse:
    return api.post("/token?grant_type=password", {"email": email, "password": password}, **options)


def test_correct_password_signs_in(api: Api) -> None:
    user = make_user(email=EMAIL, at=timezone.now() - timedelta(days=1))
    response = sign_in(api, headers={"User-Agent": "tests"})

    assert response.status_code == 200
    session = response.json()
    assert list(session) == [
        "access_token", "token_type", "expires_in", "expires_at", "refresh_token", "user", "weak_password",
    ]  # fmt: skip
    assert session["weak_password"] is None
    assert (session["token_type"], session["expires_in"]) == ("bearer", 3600)
    claims = access_tokens.decode(session["access_token"], at=timezone.now())
    assert (claims.sub, claims.exp, claims.aal) == (str(user.id), session["expires_at"], "aal1")
    assert [entry.method for entry in claims.amr] == ["password"]
    row = Session.objects.get()
    assert (row.user_id, str(row.id), row.aal) == (user.id, claims.session_id, "aal1")
    assert (row.user_agent, row.ip, row.refresh_token_counter) == ("tests", "127.0.0.1", 0)
    assert list(AmrClaim.objects.values_list("authentication_method", flat=True)) == ["password"]
    after = User.objects.get()
    assert after.last_sign_in_at == after.updated_at == row.created_at
    assert after.password == user.password
    assert session["user"] == api.get("/user", bearer=session["access_token"]).json()
    assert audit_payloads() == [
        {
            "action": "login",
            "actor_id": str(user.id),
            "actor_username": EMAIL,
            "actor_via_sso": False,
            "log_type": "account",
            "traits": {"provider": "email"},
        }
    ]
    body = {"refresh_token": session["refresh_token"]}
    assert api.post("/token?grant_type=refresh_token", body).status_code == 200


def test_email_is_case_insensitive(api: Api) -> None:
    make_user(email=EMAIL)
    assert sign_in(api, "USER@Example.COM").status_code == 200


@pytest.mark.parametrize("number", [PHONE, "+15551234567", "+1 555 1234567", " 1 5 5 51234567"])
def test_phone_is_accepted_in_any_notation(api: Api, auth_config: ChangeConfig, number: str) -> None:
    auth_config(signup={"phone_enabled": True})
    make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now(), email_confirmed_at=None)
    response = api.post("/token?grant_type=password", {"phone": number, "password": PASSWORD})
    assert response.status_code == 200
    assert audit_trail() == [("login", {"provider": "phone"})]
    assert audit_payloads()[0]["actor_username"] == PHONE


def test_a_sign_in_leaves_other_sessions_and_sent_secrets_valid(api: Api) -> None:
    user = make_user(email=EMAIL)
    make_session(user)
    make_one_time_token(user)
    assert sign_in(api).status_code == 200
    assert (Session.objects.count(), OneTimeToken.objects.count()) == (2, 1)


# Errors; each request also has every fault that is checked later


@pytest.mark.parametrize(
    ("config", "body", "refusal"),
    [
        (
            {"email_enabled": False},
            {"email": "x", "phone": "x", "password": ""},
            (400, "validation_failed", "Only an email address or phone number should be provided on login."),
        ),
        (
            {"email_enabled": False},
            {"email": "x", "password": "x"},
            (422, "email_provider_disabled", "Email logins are disabled"),
        ),
        ({}, {"phone": "x", "password": "x"}, (422, "phone_provider_disabled", "Phone logins are disabled")),
        ({}, {"password": "x"}, (400, "validation_failed", "missing email or phone")),
        ({}, {}, (400, "validation_failed", "missing email or phone")),
        ({}, "null", (400, "validation_failed", "missing email or phone")),
        ({}, {"email": "", "phone": None}, (400, "validation_failed", "missing email or phone")),
        ({}, {"email": "not an address", "password": "x"}, INVALID),
        ({}, {"email": "unknown@example.com", "password": PASSWORD}, INVALID),
        ({}, {"email": EMAIL}, INVALID),
        ({}, {"email": EMAIL, "password": ""}, INVALID),
        ({}, {"email": EMAIL, "password": PASSWORD.upper()}, INVALID),
        ({}, {"email": EMAIL, "password": f"{PASSWORD} "}, INVALID),
        ({}, {"email": EMAIL, "password": "x" * 73}, INVALID),
        ({}, {"email": " user@example.com", "password": PASSWORD}, INVALID),
        ({"phone_enabled": True}, {"phone": "not a number", "password": "x"}, INVALID),
        ({"phone_enabled": True}, {"phone": PHONE, "password": PASSWORD}, INVALID),
    ],
)
def test_errors_have_documented_order_and_change_nothing(
    api: Api, auth_config: ChangeConfig, config: dict[str, Any], body: Any, refusal: tuple[int, str, str]
) -> None:
    auth_config(signup=config)
    make_user(email=EMAIL)
    before = table_contents()
    assert_error(api.post("/token?grant_type=password", body), *refusal)
    assert table_contents() == before


ACCOUNTS: dict[str, dict[str, Any]] = {
    "confirmed": {},
    "unconfirmed": {"email_confirmed_at": None},
    "banned": {"banned": True},
    "banned and unconfirmed": {"email_confirmed_at": None, "banned": True},
    "without a password": {"password": ""},
    "with null for a password": {"encrypted": None},
    "of another audience": {"audience": "staff"},
    "of an SSO provider": {"is_sso_user": True},
    "deleted softly": {"deleted_at": timezone.now()},
}


def make(account: str) -> User | None:
    if account == "unknown":
        return None
    columns = dict(ACCOUNTS[account])
    if columns.pop("banned", False):
        columns["banned_until"] = timezone.now() + timedelta(hours=1)
    encrypted = columns.pop("encrypted", "")
    user = make_user(email=EMAIL, **columns)
    if encrypted is None:
        User.objects.update(password=None)
    return user


@pytest.mark.parametrize("account", ["unknown", *ACCOUNTS])
def test_a_wrong_password_reveals_nothing(api: Api, account: str) -> None:
    make(account)
    before = table_contents()
    response = sign_in(api, password="wrong password")
    assert_error(response, *INVALID)
    assert {name: value for name, value in response.headers.items() if name != "X-Sb-Error-Code"} == {
        "Content-Type": "application/json", "Cache-Control": "no-store", "Vary": "Origin",
        **SECURITY_HEADERS,
    }  # fmt: skip
    assert table_contents() == before


@pytest.mark.parametrize(
    ("account", "refusal"),
    [
        ("unconfirmed", (400, "email_not_confirmed", "Email not confirmed")),
        ("banned", (400, "user_banned", "User is banned")),
        ("banned and unconfirmed", (400, "user_banned", "User is banned")),
        ("without a password", INVALID),
        ("with null for a password", INVALID),
        ("of another audience", INVALID),
        ("of an SSO provider", INVALID),
    ],
)
def test_other_errors_are_reported_after_the_correct_password(
    api: Api, account: str, refusal: tuple[int, str, str]
) -> None:
    make(account)
    before = table_contents()
    assert_error(sign_in(api), *refusal)
    assert table_contents() == before


def test_an_unconfirmed_phone_is_reported_after_the_correct_password(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    make_user(email=EMAIL, phone=PHONE)
    body = {"phone": PHONE, "password": PASSWORD}
    assert_error(api.post("/token?grant_type=password", body), 400, "phone_not_confirmed", "Phone not confirmed")
    assert_error(api.post("/token?grant_type=password", {**body, "password": "wrong"}), *INVALID)
    assert sign_in(api).status_code == 200


def test_expired_ban_is_ignored(api: Api) -> None:
    make_user(email=EMAIL, banned_until=timezone.now() - timedelta(seconds=1))
    assert sign_in(api).status_code == 200


@pytest.mark.parametrize("audience", ["staff", "authenticated"])
def test_accounts_are_looked_up_in_the_audience_of_the_request(api: Api, audience: str) -> None:
    make_user(email=EMAIL, audience=audience)
    other = "authenticated" if audience == "staff" else "staff"
    assert sign_in(api, headers={"X-JWT-AUD": audience}).json()["user"]["aud"] == audience
    assert_error(sign_in(api, headers={"X-JWT-AUD": other}), *INVALID)


# Older hashes


@pytest.mark.parametrize(
    ("policy", "reasons", "text"),
    [
        ({"min_length": 40}, ["length"], TOO_SHORT),
        (
            {"min_length": 40, "required_characters": ("0123456789",)},
            ["length", "characters"],
            f"{TOO_SHORT} Password should contain at least one character of each: 0123456789.",
        ),
    ],
)
def test_password_below_current_policy_is_accepted_and_reported(
    api: Api, auth_config: ChangeConfig, policy: dict[str, Any], reasons: list[str], text: str
) -> None:
    make_user(email=EMAIL)
    auth_config(passwords=policy)
    response = sign_in(api)
    assert response.status_code == 200
    assert response.json()["weak_password"] == {"message": text, "reasons": reasons}
    assert_error(sign_in(api, password="wrong"), *INVALID)


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        *(pytest.param(stored, "test", id=name) for name, stored in IMPORTED.items()),
        pytest.param(FIREBASE, "mytestpassword", id="firebase"),
    ],
)
@pytest.mark.usefixtures("production_hasher")
def test_imported_password_signs_in_and_is_rehashed(api: Api, stored: str, password: str) -> None:
    user = make_user(email=EMAIL)
    User.objects.update(password=stored)
    before = table_contents()
    assert_error(sign_in(api, password=f"{password}1"), *INVALID)
    assert table_contents() == before
    assert sign_in(api, password=password).status_code == 200
    after = User.objects.get(id=user.id).password or ""
    assert after.startswith(OUR_HASH)
    assert hashing.verify_password(password, after)
    assert sign_in(api, password=password).status_code == 200
    assert User.objects.get(id=user.id).password == after


@pytest.mark.parametrize("stored", ["x", "{", "$argon2d$v=19$m=16,t=2,p=1$YWFhYWFhYWE$YWFhYQ", "$1$x$y", "plain text"])
def test_an_unsupported_hash_matches_no_password(api: Api, stored: str) -> None:
    make_user(email=EMAIL)
    User.objects.update(password=stored)
    for password in (PASSWORD, stored, ""):
        assert_error(sign_in(api, password=password), *INVALID)


KEY = "pwFoiPyybQMqNmYVN0gUnpbfpGQV2sDv9vp0ZAxi_Y4"
ENCRYPTION = {
    "encrypt": True,
    "encryption_key_id": "k1",
    "encryption_key": Secret(KEY),
    "decryption_keys": {"k1": Secret(KEY)},
}


def test_a_plain_hash_is_encrypted_at_the_next_sign_in(api: Api, auth_config: ChangeConfig) -> None:
    user = make_user(email=EMAIL)
    auth_config(database=ENCRYPTION)
    assert sign_in(api).status_code == 200
    stored = User.objects.get().password or ""
    assert stored.startswith('{"key_id":"k1"')
    assert (user.password or "") not in stored
    assert sign_in(api).status_code == 200
    assert User.objects.get().password == stored
    assert_error(sign_in(api, password="wrong"), *INVALID)


def test_a_hash_without_its_encryption_key_is_a_server_error(api: Api, auth_config: ChangeConfig) -> None:
    make_user(email=EMAIL)
    auth_config(database=ENCRYPTION)
    sign_in(api)
    auth_config(database={"decryption_keys": {}})
    response = sign_in(api)
    assert (response.status_code, response.json()["error_code"]) == (500, "unexpected_failure")


# Session and request details


@pytest.mark.parametrize("grant", ["", "?grant_type=", "?grant_type=foo", "?grant=password", "?grant_type=Password"])
def test_unknown_grant_is_rejected(api: Api, grant: str) -> None:
    assert_error(api.post(f"/token{grant}", "{"), 400, "invalid_credentials", "unsupported_grant_type")


@pytest.mark.usefixtures("slow_refill")
def test_grants_share_rate_limit_without_unknown_grants(api: Api) -> None:
    for number in range(30):
        grant = ("password", "refresh_token", "pkce")[number % 3]
        assert api.post(f"/token?grant_type={grant}", {}).status_code == 400
        assert api.post("/token?grant_type=foo", {}).status_code == 400
    make_user(email=EMAIL)
    before = table_contents()
    assert_error(sign_in(api), 429, "over_request_rate_limit", "Request rate limit reached")
    assert_error(api.post("/token?grant_type=pkce", "{"), 429, "over_request_rate_limit", "Request rate limit reached")
    assert table_contents() == before
    assert sign_in(api, headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 200


@pytest.mark.usefixtures("slow_refill")
def test_client_without_proxy_cannot_choose_rate_limit_key() -> None:
    for number in range(31):
        client = Client(REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=f"198.51.100.{number}")
        status = client.generic("POST", "/token?grant_type=password", b"{}").status_code
        assert status == (429 if number == 30 else 400)


@pytest.mark.usefixtures("slow_refill")
def test_limits_count_by_the_configured_header(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"header": "X-Key"})
    for number in range(31):
        headers = {"X-Key": f"one, {number}", "X-Forwarded-For": f"198.51.100.{number}"}
        response = api.post("/token?grant_type=refresh_token", {"refresh_token": "abcdefghijkl"}, headers=headers)
        assert response.status_code == (429 if number == 30 else 400)
    for value in ("two", "", " ,x"):
        response = api.post("/token?grant_type=password", {}, headers={"X-Key": value})
        assert response.status_code == 400


def test_confirmation_email_stays_valid_after_rejected_sign_in(api: Api) -> None:
    user = make_user(email=EMAIL, confirmed=False)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    backdate(OneTimeToken.objects.get(), by=timedelta(hours=20))
    assert_error(sign_in(api), 400, "email_not_confirmed", "Email not confirmed")
    assert api.post("/verify", {"type": "signup", "token_hash": secret.link_token}).status_code == 200
    assert sign_in(api).status_code == 200
