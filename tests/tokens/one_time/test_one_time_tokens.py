"""One-time tokens: storage of code and link, single use, replacement, expiry and the limit of wrong_code codes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.security import crypto
from tests import factories
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.tokens.token_requests import error_of
from tokens.models import OneTimeToken, Session, TokenType
from tokens.one_time.one_time_tokens import OneTimeSecret

pytestmark = pytest.mark.django_db

LINK_INVALID = (403, "otp_expired", "Email link is invalid or has expired")
CODE_INVALID = (403, "otp_expired", "Token has expired or is invalid")


def verify_link(api: Api, secret: OneTimeSecret, type: str = "recovery") -> ApiResponse:
    return api.post("/verify", {"type": type, "token_hash": secret.link_token})


def verify_code(api: Api, user: User, code: str, type: str = "recovery") -> ApiResponse:
    return api.post("/verify", {"type": type, "email": user.email, "token": code})


def wrong_code(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06d}"


def attempts() -> int:
    return OneTimeToken.objects.get().attempts


# Storage


def test_only_hashes_of_code_and_link_are_stored() -> None:
    user = factories.make_user(email="user@example.com")
    secret = factories.make_one_time_token(user)
    row = OneTimeToken.objects.get()
    assert row.token_hash == crypto.hash_code("user@example.com", secret.code)
    assert row.link_hash == crypto.hash_link_token(secret.link_token)
    assert (row.relates_to, row.attempts, row.token_type) == ("user@example.com", 0, "recovery_token")
    assert secret.code not in secret.link_token
    assert secret.code not in repr(secret)
    assert secret.link_token not in repr(secret)


@pytest.mark.parametrize("pkce", [False, True])
def test_format_of_code_and_link(pkce: bool) -> None:
    secret = factories.make_one_time_token(factories.make_user(), pkce=pkce)
    prefix = "pkce_" if pkce else ""
    assert secret.link_token.startswith(prefix)
    assert len(bytes.fromhex(secret.link_token.removeprefix(prefix))) == 28
    assert len(secret.code) == 6
    assert secret.code.isdigit()
    row = OneTimeToken.objects.get()
    assert row.token_hash.startswith(prefix)
    assert len(row.token_hash) == len(prefix) + 64
    assert row.link_hash == crypto.hash_link_token(secret.link_token)


@pytest.mark.parametrize("digits", [6, 8, 10])
def test_code_length_is_configurable(digits: int, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"otp_length": digits})
    assert len(factories.make_one_time_token(factories.make_user()).code) == digits


def test_link_tokens_differ() -> None:
    user = factories.make_user()
    assert len({factories.make_one_time_token(user).link_token for _ in range(20)}) == 20


# Single use


def test_link_is_valid_once(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    assert verify_link(api, secret).status_code == 200
    assert error_of(verify_link(api, secret)) == LINK_INVALID
    assert Session.objects.count() == 1


def test_code_is_valid_once(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    assert verify_code(api, user, secret.code).status_code == 200
    assert error_of(verify_code(api, user, secret.code)) == CODE_INVALID
    assert Session.objects.count() == 1


def test_use_of_code_or_link_invalidates_both(api: Api) -> None:
    user = factories.make_user()
    first = factories.make_one_time_token(user)
    assert verify_link(api, first).status_code == 200
    assert error_of(verify_code(api, user, first.code)) == CODE_INVALID
    second = factories.make_one_time_token(user)
    assert verify_code(api, user, second.code).status_code == 200
    assert error_of(verify_link(api, second)) == LINK_INVALID


def test_code_of_pkce_email_signs_in(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, pkce=True)
    assert verify_code(api, user, secret.code).status_code == 200


def test_use_invalidates_all_one_time_tokens_of_the_user(api: Api) -> None:
    user, other_user = factories.make_user(), factories.make_user()
    recovery = factories.make_one_time_token(user)
    for token_type in (TokenType.CONFIRMATION, TokenType.EMAIL_CHANGE_NEW, TokenType.REAUTHENTICATION):
        factories.make_one_time_token(user, token_type)
    other_secret = factories.make_one_time_token(other_user)

    assert verify_link(api, recovery).status_code == 200

    assert not OneTimeToken.objects.filter(user=user).exists()
    assert verify_link(api, other_secret).status_code == 200


@pytest.mark.parametrize("path", ["/recover", "/magiclink", "/otp"])
def test_new_email_invalidates_previous_email(path: str, api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    user = factories.make_user()
    for _ in range(2):
        assert api.post(path, {"email": user.email}).status_code == 200
    previous, latest = (
        OneTimeSecret(code=email.variables["Token"], link_token=email.variables["TokenHash"])
        for email in mailbox.emails
    )
    assert OneTimeToken.objects.count() == 1
    assert error_of(verify_link(api, previous)) == LINK_INVALID
    if previous.code != latest.code:
        assert error_of(verify_code(api, user, previous.code)) == CODE_INVALID
    assert verify_link(api, latest).status_code == 200


def test_tokens_of_different_types_are_independent(api: Api) -> None:
    user = factories.make_user()
    confirmation = factories.make_one_time_token(user, TokenType.CONFIRMATION)
    recovery = factories.make_one_time_token(user)
    assert OneTimeToken.objects.count() == 2
    assert error_of(verify_link(api, confirmation, "recovery")) == LINK_INVALID
    assert error_of(verify_link(api, recovery, "signup")) == LINK_INVALID
    if confirmation.code != recovery.code:
        assert error_of(verify_code(api, user, confirmation.code, "recovery")) == CODE_INVALID
        assert error_of(verify_code(api, user, recovery.code, "signup")) == CODE_INVALID
    assert verify_code(api, user, recovery.code, "email").status_code == 200


def test_reauthentication_token_does_not_sign_in(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, TokenType.REAUTHENTICATION)
    for type in ("signup", "recovery", "magiclink", "invite", "email"):
        assert error_of(verify_link(api, secret, type)) == LINK_INVALID
        assert error_of(verify_code(api, user, secret.code, type)) == CODE_INVALID


def test_code_is_valid_for_its_address_only(api: Api) -> None:
    user, other_user = factories.make_user(), factories.make_user()
    secret = factories.make_one_time_token(user)
    assert error_of(verify_code(api, other_user, secret.code)) == CODE_INVALID
    assert verify_code(api, user, secret.code).status_code == 200


@pytest.mark.parametrize(("age", "accepted"), [(86_300, True), (86_410, False)])
@pytest.mark.parametrize("method", ["link", "code"])
def test_code_and_link_expire(method: str, age: int, accepted: bool, api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, at=timezone.now() - timedelta(seconds=age))
    response = verify_link(api, secret) if method == "link" else verify_code(api, user, secret.code)
    if accepted:
        assert response.status_code == 200
    else:
        assert error_of(response) == (LINK_INVALID if method == "link" else CODE_INVALID)
        assert OneTimeToken.objects.exists()
        assert not Session.objects.exists()


def test_banned_user_keeps_the_one_time_token(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    secret = factories.make_one_time_token(user)
    user_banned = (403, "user_banned", "User is banned")
    assert error_of(verify_link(api, secret)) == user_banned
    assert error_of(verify_code(api, user, secret.code)) == user_banned
    assert error_of(verify_code(api, user, wrong_code(secret.code))) == CODE_INVALID
    factories.backdate(user, by=timedelta(hours=2))
    assert verify_link(api, secret).status_code == 200


# Wrong codes


def test_code_is_invalid_after_maximum_wrong_codes(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    for count in range(1, 4):
        assert error_of(verify_code(api, user, wrong_code(secret.code))) == CODE_INVALID
        assert attempts() == count
    assert error_of(verify_code(api, user, secret.code)) == CODE_INVALID
    assert not Session.objects.exists()
    assert verify_link(api, secret).status_code == 200


def test_code_is_valid_below_maximum_wrong_codes(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    for _ in range(2):
        verify_code(api, user, wrong_code(secret.code))
    assert verify_code(api, user, secret.code).status_code == 200


def test_default_maximum_is_ten_wrong_codes(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=9)
    assert verify_code(api, user, secret.code).status_code == 200
    secret = factories.make_one_time_token(user, attempts=10)
    assert error_of(verify_code(api, user, secret.code)) == CODE_INVALID


def test_new_email_resets_wrong_code_counter(api: Api) -> None:
    user = factories.make_user()
    factories.make_one_time_token(user, attempts=10)
    secret = factories.make_one_time_token(user)
    assert attempts() == 0
    assert verify_code(api, user, secret.code).status_code == 200


def test_wrong_codes_are_unlimited_without_maximum(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 0})
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=1000)
    assert verify_code(api, user, secret.code).status_code == 200


@pytest.mark.parametrize("limit", [0, 10])
def test_wrong_code_counter_stops_at_column_maximum(limit: int, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": limit})
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=2**15 - 1)
    assert error_of(verify_code(api, user, wrong_code(secret.code))) == CODE_INVALID
    assert attempts() == 2**15 - 1


def test_wrong_code_counts_for_every_compared_token(api: Api) -> None:
    user = factories.make_user()
    codes = {
        factories.make_one_time_token(user, token_type).code
        for token_type in (TokenType.CONFIRMATION, TokenType.RECOVERY)
    }
    code = next(f"{number:06d}" for number in range(3) if f"{number:06d}" not in codes)
    verify_code(api, user, code, "email")
    assert set(OneTimeToken.objects.values_list("attempts", flat=True)) == {1}
    verify_code(api, user, code, "signup")
    attempts_by_type = dict(OneTimeToken.objects.values_list("token_type", "attempts"))
    assert attempts_by_type == {"confirmation_token": 2, "recovery_token": 1}


def test_wrong_link_does_not_count_as_wrong_code(api: Api) -> None:
    factories.make_one_time_token(factories.make_user())
    unknown = OneTimeSecret(code="", link_token="0" * 56)
    assert error_of(verify_link(api, unknown)) == LINK_INVALID
    assert attempts() == 0


def test_wrong_code_for_unknown_address_gets_same_error(api: Api) -> None:
    response = api.post("/verify", {"type": "email", "email": "nobody@example.com", "token": "123456"})
    assert error_of(response) == CODE_INVALID
