"""Many addresses guess the passwords and codes of one account; or wrong guesses lock its owner out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import argon2
import pytest
from django.test import Client
from django.utils import timezone

from accounts.mfa import recovery_codes
from accounts.models import FailedAttempts, RecoveryCode, User
from accounts.users import failed_attempts
from authsvc.audit.models import AuditLogEntry
from authsvc.conf import Secret, Vonage
from tests import factories
from tests.accounts.administration import admin_requests
from tests.accounts.mfa import factor_requests
from tests.concurrency import run_concurrently
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tokens.models import Session, TokenType

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_request_limits")]

LIMIT = 100
EMAIL = "ann@example.com"
PHONE = "15551234567"
HOME, OTHER_ROOM, AWAY = "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "198.51.100.7"
REFUSED = (400, "invalid_credentials")


@pytest.fixture(autouse=True)
def sms_and_factors(auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"phone_enabled": True},
        mfa={"phone_enroll_enabled": True, "phone_verify_enabled": True},
        sms={"provider": "vonage", "vonage": Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")},
    )


@pytest.fixture
def owner() -> User:
    return factories.make_user(email=EMAIL)


def at(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


def stranger(number: int) -> dict[str, str]:
    return at(f"203.0.{113 + number // 250}.{number % 250 + 1}")


def sign_in(
    api: Api, password: str = factories.PASSWORD, *, headers: dict[str, str], email: str = EMAIL
) -> ApiResponse:
    return api.post("/token?grant_type=password", {"email": email, "password": password}, headers=headers)


def outcome(response: ApiResponse) -> tuple[int, str]:
    return response.status_code, response.json().get("error_code", "")


def guess(api: Api, times: int = LIMIT, *, email: str = EMAIL) -> None:
    for number in range(times):
        assert outcome(sign_in(api, "a wrong guess", headers=stranger(number), email=email)) == REFUSED


def reach_limit(user: User) -> None:
    failed_attempts.record([user.id], at=timezone.now())
    FailedAttempts.objects.filter(user_id=user.id).update(attempts=LIMIT)


def count(user: User) -> int:
    return failed_attempts.read_count(user.id)


# Passwords


def test_a_correct_password_after_a_hundred_guesses_is_refused(api: Api, owner: User) -> None:
    wrong = sign_in(api, "a wrong guess", headers=stranger(0))
    guess(api, LIMIT - 1)

    correct = sign_in(api, headers=stranger(200))

    assert outcome(correct) == REFUSED
    assert correct.content == wrong.content
    assert not Session.objects.exists()


def test_the_owner_signs_in_at_home(api: Api, owner: User) -> None:
    assert sign_in(api, headers=at(HOME)).status_code == 200
    guess(api)

    assert sign_in(api, headers=at(HOME)).status_code == 200
    assert sign_in(api, headers=at(OTHER_ROOM)).status_code == 200
    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED


@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_owner_signs_in_at_home_after_signing_out_there(api: Api, owner: User, scope: str) -> None:
    session = sign_in(api, headers=at(HOME)).json()
    AuditLogEntry.objects.filter(payload__action="login").update(ip_address=HOME)
    assert api.post(f"/logout?scope={scope}", bearer=session["access_token"], headers=at(HOME)).status_code == 204
    assert not Session.objects.exists()
    guess(api)

    assert sign_in(api, headers=at(HOME)).status_code == 200
    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED


def test_forty_guesses_lock_the_owner_out_nowhere(api: Api, owner: User) -> None:
    guess(api, 40)
    assert sign_in(api, headers=at(AWAY)).status_code == 200


def test_a_request_for_a_message_makes_no_address_known(api: Api, owner: User) -> None:
    for path in ("/recover", "/magiclink", "/otp"):
        api.post(path, {"email": EMAIL}, headers=at(AWAY))
    AuditLogEntry.objects.update(ip_address=AWAY)
    reach_limit(owner)

    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED


def test_failures_are_forgotten_after_a_day_only_below_the_limit(api: Api, owner: User) -> None:
    day = timedelta(hours=24, minutes=1)
    guess(api, 3)
    factories.backdate(FailedAttempts.objects.get(user_id=owner.id), by=day)
    guess(api, 1)
    assert count(owner) == 1

    reach_limit(owner)
    factories.backdate(FailedAttempts.objects.get(user_id=owner.id), by=day)
    guess(api, 1)
    assert count(owner) == LIMIT


def test_the_limit_can_be_changed_and_switched_off(api: Api, owner: User, auth_config: ChangeConfig) -> None:
    auth_config(codes={"max_failed_attempts": 3})
    guess(api, 3)
    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED

    auth_config(codes={"max_failed_attempts": 0})
    assert sign_in(api, headers=at(AWAY)).status_code == 200
    guess(api, 1)
    assert count(owner) == 3


@pytest.mark.django_db(transaction=True)
def test_concurrent_guesses_are_all_counted(api: Api) -> None:
    owner = factories.make_user(email=EMAIL)
    guesses = [
        lambda number=number: sign_in(Api(), "a wrong guess", headers=stranger(number)) for number in range(LIMIT)
    ]
    for begin in range(0, LIMIT, 20):
        run_concurrently(*guesses[begin : begin + 20])

    assert count(owner) == LIMIT
    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED


def test_the_limit_reached_during_the_comparison_counts(api: Api, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    verify = argon2.PasswordHasher.verify

    def verify_after_limit(hasher: argon2.PasswordHasher, encoded: str, password: str) -> bool:
        reach_limit(owner)
        return verify(hasher, encoded, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", verify_after_limit)

    assert outcome(sign_in(api, headers=at(AWAY))) == REFUSED


def test_the_operator_console_counts_too(api: Api) -> None:
    operator = factories.make_user(email=EMAIL, role="service_role")

    def sign_in_to_console(password: str) -> int:
        client = Client(headers=at(AWAY))
        return client.post("/operator/login/", {"name": EMAIL, "password": password}).status_code

    assert sign_in_to_console("a wrong guess") == 400
    assert count(operator) == 1
    reach_limit(operator)
    assert sign_in_to_console(factories.PASSWORD) == 400
    failed_attempts.reset(operator.id)
    assert sign_in_to_console(factories.PASSWORD) == 302


# Reset


def test_a_link_in_an_email_resets_the_count(api: Api, owner: User, mailbox: Mailbox) -> None:
    reach_limit(owner)
    assert api.post("/recover", {"email": EMAIL}, headers=at(AWAY)).status_code == 200
    link = mailbox.emails[-1].variables["TokenHash"]

    assert api.post("/verify", {"type": "recovery", "token_hash": link}, headers=at(AWAY)).status_code == 200
    assert count(owner) == 0
    assert sign_in(api, headers=stranger(1)).status_code == 200


def test_a_change_to_an_own_address_does_not_reset_the_count(api: Api, owner: User, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    User.objects.filter(id=owner.id).update(email_change="eve@example.com")
    secret = factories.make_one_time_token(owner, TokenType.EMAIL_CHANGE_NEW, identifier="eve@example.com")
    reach_limit(owner)

    api.post("/verify", {"type": "email_change", "token_hash": secret.link_token})
    assert count(owner) == LIMIT


def test_an_administrator_resets_the_count(api: Api, owner: User) -> None:
    reach_limit(owner)
    path = f"/admin/users/{owner.id}/failed_attempts"
    assert api.delete(path).status_code == 401
    assert api.delete(path, bearer=factories.make_session(owner).access_token).status_code == 403

    assert api.delete(path, bearer=admin_requests.token()).status_code == 204
    assert sign_in(api, headers=at(AWAY)).status_code == 200
    entry = AuditLogEntry.objects.get(payload__action="failed_attempts_reset")
    assert (entry.payload or {})["traits"]["user_id"] == str(owner.id)


# Codes


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10 ** len(code):0{len(code)}}"


Prepare = Callable[[Api, User], Callable[[bool], ApiResponse]]


def email_code(type: str, token_type: TokenType) -> Prepare:
    def prepare(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
        if token_type == TokenType.CONFIRMATION:
            User.objects.filter(id=owner.id).update(email_confirmed_at=None)

        def attempt(correct: bool) -> ApiResponse:
            code = factories.make_one_time_token(owner, token_type).code  # a new code for each attempt
            body = {"type": type, "email": EMAIL, "token": code if correct else wrong(code)}
            return api.post("/verify", body, headers=at(AWAY))

        return attempt

    return prepare


def phone_code(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
    User.objects.filter(id=owner.id).update(phone=PHONE, phone_confirmed_at=timezone.now())

    def attempt(correct: bool) -> ApiResponse:
        code = factories.make_one_time_token(owner, TokenType.CONFIRMATION, identifier=PHONE).code
        body = {"type": "sms", "phone": PHONE, "token": code if correct else wrong(code)}
        return api.post("/verify", body, headers=at(AWAY))

    return attempt


def change_code(type: str, token_type: TokenType, identifier: str) -> Prepare:
    def prepare(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
        User.objects.filter(id=owner.id).update(**{type: identifier})
        name = type.removesuffix("_change")

        def attempt(correct: bool) -> ApiResponse:
            code = factories.make_one_time_token(owner, token_type, identifier=identifier).code
            body = {"type": type, name: identifier, "token": code if correct else wrong(code)}
            return api.post("/verify", body, headers=at(AWAY))

        return attempt

    return prepare


def reauthenticate(proof: str) -> Prepare:
    def prepare(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
        session = factories.make_session(owner, created_at=timezone.now() - timedelta(days=2), ip=AWAY)
        Session.objects.filter(id=session.session.id).update(refreshed_at=timezone.now())  # by the thief of its tokens

        def attempt(correct: bool) -> ApiResponse:
            body: dict[str, Any] = {"password": "another horse battery"}
            if proof == "nonce":
                code = factories.make_one_time_token(owner, TokenType.REAUTHENTICATION).code
                body["nonce"] = code if correct else wrong(code)
            else:
                body["current_password"] = factories.PASSWORD if correct else "a wrong guess"
            return api.put("/user", body, bearer=session.access_token, headers=at(AWAY))

        return attempt

    return prepare


def totp(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
    session = factories.make_session(owner, ip=AWAY)  # the attacker knows the password
    factor = factories.make_factor(owner, secret=factor_requests.SECRET)

    def attempt(correct: bool) -> ApiResponse:
        path = f"/factors/{factor.id}"
        challenge = api.post(f"{path}/challenge", {}, bearer=session.access_token, headers=at(AWAY)).json()
        code = factor_requests.code() if correct else factor_requests.wrong_code()
        body = {"challenge_id": challenge["id"], "code": code}
        return api.post(f"{path}/verify", body, bearer=session.access_token, headers=at(AWAY))

    return attempt


def recovery_code(api: Api, owner: User) -> Callable[[bool], ApiResponse]:
    session = factories.make_session(owner, ip=AWAY)
    factories.make_factor(owner, secret=factor_requests.SECRET)
    code = recovery_codes.generate()[0]
    RecoveryCode.objects.create(
        user=owner, code_hash=recovery_codes.hash_code(code, user_id=owner.id), created_at=timezone.now()
    )

    def attempt(correct: bool) -> ApiResponse:
        body = {"code": code if correct else "0000-0000-0000-0000"}
        return api.post("/factors/recovery_codes/verify", body, bearer=session.access_token, headers=at(AWAY))

    return attempt


SECRETS: dict[str, Prepare] = {
    "sign-in code by email": email_code("email", TokenType.RECOVERY),
    "recovery code by email": email_code("recovery", TokenType.RECOVERY),
    "code of a magic link": email_code("magiclink", TokenType.RECOVERY),
    "confirmation code by email": email_code("signup", TokenType.CONFIRMATION),
    "sign-in code by phone": phone_code,
    "code of an email change": change_code("email_change", TokenType.EMAIL_CHANGE_NEW, "new@example.com"),
    "code of a phone change": change_code("phone_change", TokenType.PHONE_CHANGE, PHONE),
    "nonce": reauthenticate("nonce"),
    "current password": reauthenticate("current_password"),
    "TOTP": totp,
    "MFA recovery code": recovery_code,
}


@pytest.fixture(params=SECRETS)
def attempt(
    request: pytest.FixtureRequest, api: Api, owner: User, auth_config: ChangeConfig
) -> Callable[[bool], ApiResponse]:
    auth_config(
        mailer={"secure_email_change_enabled": False},
        mfa={"recovery_codes_enabled": True},
        passwords={
            "update_requires_reauthentication": request.param == "nonce",
            "update_requires_current": request.param == "current password",
        },
    )
    return SECRETS[request.param](api, owner)


def test_wrong_codes_of_all_messages_count_on_the_account(owner: User, attempt: Callable[[bool], ApiResponse]) -> None:
    for number in range(1, 4):
        assert attempt(False).status_code in (400, 403, 422)
        assert count(owner) == number


def test_a_correct_code_beyond_the_limit_is_refused_like_a_wrong_one(
    owner: User, attempt: Callable[[bool], ApiResponse]
) -> None:
    refused = attempt(False)
    reach_limit(owner)
    sessions = Session.objects.count()

    correct = attempt(True)

    assert (correct.status_code, correct.json()) == (refused.status_code, refused.json())
    assert Session.objects.count() == sessions
    failed_attempts.reset(owner.id)
    assert attempt(True).status_code == 200


def test_codes_are_accepted_at_home(api: Api, owner: User) -> None:
    factories.make_session(owner, ip=HOME)
    reach_limit(owner)
    code = factories.make_one_time_token(owner).code

    response = api.post("/verify", {"type": "email", "email": EMAIL, "token": code}, headers=at(OTHER_ROOM))

    assert response.status_code == 200


def test_a_second_factor_is_accepted_where_one_was_verified_before(api: Api, owner: User) -> None:
    attempt = totp(api, owner)
    reach_limit(owner)
    assert attempt(True).status_code == 422
    factories.make_session(owner, ip=AWAY, aal="aal2")

    assert attempt(True).status_code == 200


# What a failure reveals and costs


def test_accounts_and_unknown_addresses_are_refused_alike(api: Api, owner: User) -> None:
    guess(api)
    known = sign_in(api, "a wrong guess", headers=at(AWAY))
    unknown = sign_in(api, "a wrong guess", headers=at(AWAY), email="unknown@example.com")
    assert (known.status_code, known.content) == (unknown.status_code, unknown.content)


@pytest.mark.parametrize("state", ["below the limit", "at the limit"])
def test_a_refusal_runs_as_many_statements_for_unknown_addresses(
    api: Api, owner: User, state: str, django_assert_num_queries: Any
) -> None:
    if state == "at the limit":
        reach_limit(owner)
    for email, number in ((EMAIL, 4 if state == "at the limit" else 3), ("unknown@example.com", 3)):
        sign_in(api, "a wrong guess", headers=at(AWAY), email=email)
        # Requests are not limited in this test. Two limits of audit entries and the entry follow.
        with django_assert_num_queries(number - 1 + 3):
            sign_in(api, "a wrong guess", headers=at(AWAY), email=email)


def test_unknown_identifiers_cannot_fill_the_table(api: Api) -> None:
    for number in range(1_100):
        failed_attempts.record([], identifier=f"unknown{number}@example.com", at=timezone.now())
    assert FailedAttempts.objects.count() <= 1_024


def test_a_successful_sign_in_writes_no_count(api: Api, owner: User) -> None:
    assert sign_in(api, headers=at(AWAY)).status_code == 200
    assert not FailedAttempts.objects.exists()


@pytest.mark.parametrize("password", ["a wrong guess", factories.PASSWORD])
def test_a_refused_correct_password_costs_as_much_as_a_wrong_one(
    api: Api, owner: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any, password: str
) -> None:
    reach_limit(owner)
    compared: list[str] = []
    verify = argon2.PasswordHasher.verify

    def recorded(hasher: argon2.PasswordHasher, encoded: str, given: str) -> bool:
        compared.append(given)
        return verify(hasher, encoded, given)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", recorded)

    with django_assert_num_queries(6):  # three for the audit entry and its limits
        assert outcome(sign_in(api, password, headers=at(AWAY))) == REFUSED

    assert compared == [password]
