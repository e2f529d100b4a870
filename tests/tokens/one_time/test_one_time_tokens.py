"""Codes and links of mails: one secret in two forms, replaced by the next, good for one use and a few guesses."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from tests import factories
from tests.conftest import Answer, Api, ChangeConfig, Mailbox
from tests.tokens.token_requests import error_of
from tokens.models import OneTimeToken, Session, TokenType
from tokens.one_time.one_time_tokens import OneTimeSecret

pytestmark = pytest.mark.django_db

BAD_LINK = (403, "otp_expired", "Email link is invalid or has expired")
BAD_CODE = (403, "otp_expired", "Token has expired or is invalid")


def by_link(api: Api, secret: OneTimeSecret, type: str = "recovery") -> Answer:
    return api.post("/verify", {"type": type, "token_hash": secret.link_token})


def by_code(api: Api, user: User, code: str, type: str = "recovery") -> Answer:
    return api.post("/verify", {"type": type, "email": user.email, "token": code})


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 1_000_000:06d}"


def attempts() -> int:
    return OneTimeToken.objects.get().attempts


# What is kept


def test_neither_code_nor_link_can_be_read_from_the_database() -> None:
    user = factories.make_user(email="user@example.com")
    secret = factories.make_one_time_token(user)
    row = OneTimeToken.objects.get()
    assert row.token_hash == hashlib.sha224(f"user@example.com{secret.code}".encode()).hexdigest()
    assert row.link_hash == hashlib.sha256(secret.link_token.encode()).hexdigest()
    assert (row.relates_to, row.attempts, row.token_type) == ("user@example.com", 0, "recovery_token")
    assert secret.code not in secret.link_token
    assert secret.code not in repr(secret)
    assert secret.link_token not in repr(secret)


@pytest.mark.parametrize("pkce", [False, True])
def test_the_form_of_code_and_link(pkce: bool) -> None:
    secret = factories.make_one_time_token(factories.make_user(), pkce=pkce)
    mark = "pkce_" if pkce else ""
    assert secret.link_token.startswith(mark)
    assert len(bytes.fromhex(secret.link_token.removeprefix(mark))) == 28
    assert len(secret.code) == 6
    assert secret.code.isdigit()
    row = OneTimeToken.objects.get()
    assert row.token_hash.startswith(mark)
    assert len(row.token_hash) == len(mark) + 56
    assert row.link_hash == hashlib.sha256(secret.link_token.encode()).hexdigest()


@pytest.mark.parametrize("digits", [6, 8, 10])
def test_the_length_of_codes_is_a_setting(digits: int, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"otp_length": digits})
    assert len(factories.make_one_time_token(factories.make_user()).code) == digits


def test_the_same_user_never_gets_the_same_link_twice() -> None:
    user = factories.make_user()
    assert len({factories.make_one_time_token(user).link_token for _ in range(20)}) == 20


# One use


def test_a_link_signs_in_once(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    assert by_link(api, secret).status_code == 200
    assert error_of(by_link(api, secret)) == BAD_LINK
    assert Session.objects.count() == 1


def test_a_code_signs_in_once(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    assert by_code(api, user, secret.code).status_code == 200
    assert error_of(by_code(api, user, secret.code)) == BAD_CODE
    assert Session.objects.count() == 1


def test_code_and_link_are_one_secret(api: Api) -> None:
    user = factories.make_user()
    first = factories.make_one_time_token(user)
    assert by_link(api, first).status_code == 200
    assert error_of(by_code(api, user, first.code)) == BAD_CODE
    second = factories.make_one_time_token(user)
    assert by_code(api, user, second.code).status_code == 200
    assert error_of(by_link(api, second)) == BAD_LINK


def test_the_code_of_a_pkce_mail_can_be_typed_by_hand(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, pkce=True)
    assert by_code(api, user, secret.code).status_code == 200


def test_using_one_secret_ends_every_other_of_the_user(api: Api) -> None:
    user, stranger = factories.make_user(), factories.make_user()
    recovery = factories.make_one_time_token(user)
    for token_type in (TokenType.CONFIRMATION, TokenType.EMAIL_CHANGE_NEW, TokenType.REAUTHENTICATION):
        factories.make_one_time_token(user, token_type)
    other = factories.make_one_time_token(stranger)

    assert by_link(api, recovery).status_code == 200

    assert not OneTimeToken.objects.filter(user=user).exists()
    assert by_link(api, other).status_code == 200


@pytest.mark.parametrize("path", ["/recover", "/magiclink", "/otp"])
def test_a_newer_mail_ends_the_older(path: str, api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    user = factories.make_user()
    for _ in range(2):
        assert api.post(path, {"email": user.email}).status_code == 200
    older, newer = (
        OneTimeSecret(code=mail.variables["Token"], link_token=mail.variables["TokenHash"]) for mail in mailbox.emails
    )
    assert OneTimeToken.objects.count() == 1
    assert error_of(by_link(api, older)) == BAD_LINK
    if older.code != newer.code:
        assert error_of(by_code(api, user, older.code)) == BAD_CODE
    assert by_link(api, newer).status_code == 200


def test_secrets_of_different_types_stand_beside_each_other(api: Api) -> None:
    user = factories.make_user()
    confirmation = factories.make_one_time_token(user, TokenType.CONFIRMATION)
    recovery = factories.make_one_time_token(user)
    assert OneTimeToken.objects.count() == 2
    assert error_of(by_link(api, confirmation, "recovery")) == BAD_LINK
    assert error_of(by_link(api, recovery, "signup")) == BAD_LINK
    if confirmation.code != recovery.code:
        assert error_of(by_code(api, user, confirmation.code, "recovery")) == BAD_CODE
        assert error_of(by_code(api, user, recovery.code, "signup")) == BAD_CODE
    assert by_code(api, user, recovery.code, "email").status_code == 200


def test_a_secret_for_something_else_does_not_sign_in(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, TokenType.REAUTHENTICATION)
    for type in ("signup", "recovery", "magiclink", "invite", "email"):
        assert error_of(by_link(api, secret, type)) == BAD_LINK
        assert error_of(by_code(api, user, secret.code, type)) == BAD_CODE


def test_a_code_counts_for_its_address_only(api: Api) -> None:
    user, stranger = factories.make_user(), factories.make_user()
    secret = factories.make_one_time_token(user)
    assert error_of(by_code(api, stranger, secret.code)) == BAD_CODE
    assert by_code(api, user, secret.code).status_code == 200


@pytest.mark.parametrize(("age", "accepted"), [(86_390, True), (86_410, False)])
@pytest.mark.parametrize("form", ["link", "code"])
def test_a_secret_dies_with_its_time(form: str, age: int, accepted: bool, api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, at=timezone.now() - timedelta(seconds=age))
    answer = by_link(api, secret) if form == "link" else by_code(api, user, secret.code)
    if accepted:
        assert answer.status_code == 200
    else:
        assert error_of(answer) == (BAD_LINK if form == "link" else BAD_CODE)
        assert OneTimeToken.objects.exists()
        assert not Session.objects.exists()


def test_a_ban_keeps_the_secret_for_later(api: Api) -> None:
    user = factories.make_user(banned_until=timezone.now() + timedelta(hours=1))
    secret = factories.make_one_time_token(user)
    banned = (403, "user_banned", "User is banned")
    assert error_of(by_link(api, secret)) == banned
    assert error_of(by_code(api, user, secret.code)) == banned
    assert error_of(by_code(api, user, wrong(secret.code))) == BAD_CODE
    factories.backdate(user, by=timedelta(hours=2))
    assert by_link(api, secret).status_code == 200


# Guesses


def test_wrong_codes_are_counted_until_the_code_is_dead(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    for count in range(1, 4):
        assert error_of(by_code(api, user, wrong(secret.code))) == BAD_CODE
        assert attempts() == count
    assert error_of(by_code(api, user, secret.code)) == BAD_CODE
    assert not Session.objects.exists()
    assert by_link(api, secret).status_code == 200


def test_one_guess_fewer_and_the_code_still_works(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 3})
    user = factories.make_user()
    secret = factories.make_one_time_token(user)
    for _ in range(2):
        by_code(api, user, wrong(secret.code))
    assert by_code(api, user, secret.code).status_code == 200


def test_ten_guesses_are_the_default(api: Api) -> None:
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=9)
    assert by_code(api, user, secret.code).status_code == 200
    secret = factories.make_one_time_token(user, attempts=10)
    assert error_of(by_code(api, user, secret.code)) == BAD_CODE


def test_a_new_mail_starts_the_count_anew(api: Api) -> None:
    user = factories.make_user()
    factories.make_one_time_token(user, attempts=10)
    secret = factories.make_one_time_token(user)
    assert attempts() == 0
    assert by_code(api, user, secret.code).status_code == 200


def test_without_a_limit_guesses_are_free(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": 0})
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=1000)
    assert by_code(api, user, secret.code).status_code == 200


@pytest.mark.parametrize("limit", [0, 10])
def test_the_count_of_guesses_has_an_end_and_nobody_notices(limit: int, api: Api, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_attempts": limit})
    user = factories.make_user()
    secret = factories.make_one_time_token(user, attempts=2**15 - 1)
    assert error_of(by_code(api, user, wrong(secret.code))) == BAD_CODE


def test_a_guess_counts_against_every_secret_it_could_have_been(api: Api) -> None:
    user = factories.make_user()
    codes = {
        factories.make_one_time_token(user, token_type).code
        for token_type in (TokenType.CONFIRMATION, TokenType.RECOVERY)
    }
    guess = next(f"{number:06d}" for number in range(3) if f"{number:06d}" not in codes)
    by_code(api, user, guess, "email")
    assert set(OneTimeToken.objects.values_list("attempts", flat=True)) == {1}
    by_code(api, user, guess, "signup")
    counted = dict(OneTimeToken.objects.values_list("token_type", "attempts"))
    assert counted == {"confirmation_token": 2, "recovery_token": 1}


def test_a_wrong_link_is_no_guess(api: Api) -> None:
    factories.make_one_time_token(factories.make_user())
    stranger = OneTimeSecret(code="", link_token="0" * 56)
    assert error_of(by_link(api, stranger)) == BAD_LINK
    assert attempts() == 0


def test_a_guess_at_an_unknown_address_is_answered_the_same(api: Api) -> None:
    answer = api.post("/verify", {"type": "email", "email": "nobody@example.com", "token": "123456"})
    assert error_of(answer) == BAD_CODE
