"""POST /verify: passwords of accounts that a verification confirms."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from tests.accounts.verification.verify_requests import (
    EMAIL,
    LINK_DEAD,
    SIGN_UP,
    SIGNED_UP,
    assert_link_error,
    open_link,
    read_session,
    session_fragment,
)
from tests.conftest import Api, Mailbox
from tests.factories import PASSWORD, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_trail, backdate_rate_limits, table_contents
from tokens.models import Session, TokenType

pytestmark = pytest.mark.django_db

# Accounts without a password


def invited(**columns: Any) -> User:
    return make_user(email=EMAIL, password="", confirmed=False, **{"invited_at": timezone.now(), **columns})


@pytest.mark.parametrize("type", ["signup", "invite", "email"])
@pytest.mark.parametrize("form", ["code", "token_hash"])
def test_the_first_password_can_be_set_during_verification(api: Api, type: str, form: str) -> None:
    user = invited(recovery_sent_at=timezone.now(), confirmation_sent_at=timezone.now())
    make_session(user)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    proof = {"token_hash": secret.link_token} if form == "token_hash" else {"token": secret.code, "email": EMAIL}
    response = api.post("/verify", {"type": type, "password": PASSWORD, **proof})
    shown = read_session(response, "invite" if type == "invite" else "signup")["user"]
    assert [name for name in shown if name.endswith("_sent_at")] == ["confirmation_sent_at"]
    assert Session.objects.count() == 1
    assert User.objects.get().confirmation_sent_at == user.confirmation_sent_at
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200
    assert audit_trail()[0] == SIGNED_UP


@pytest.mark.parametrize(
    ("password", "status", "error_code"),
    [("short", 422, "weak_password"), ("", 422, "weak_password"), ("x" * 73, 400, "validation_failed")],
)
def test_first_password_must_meet_policy(api: Api, password: str, status: int, error_code: str) -> None:
    secret = make_one_time_token(invited(), TokenType.CONFIRMATION)
    before = table_contents()
    response = api.post("/verify", {"type": "invite", "password": password, "token_hash": secret.link_token})
    assert (response.status_code, response.json()["error_code"]) == (status, error_code)
    assert table_contents() == before


@pytest.mark.parametrize("invitation", [True, False])
@pytest.mark.parametrize("form", ["code", "token_hash"])
def test_a_sign_up_is_not_confirmed_without_a_password(api: Api, invitation: bool, form: str) -> None:
    secret = make_one_time_token(invited(**({} if invitation else {"invited_at": None})), TokenType.CONFIRMATION)
    proof = {"token_hash": secret.link_token} if form == "token_hash" else {"token": secret.code, "email": EMAIL}
    before = table_contents()
    assert_error(
        api.post("/verify", {"type": "signup", **proof}), 422, "validation_failed", "Signup requires a valid password"
    )
    assert table_contents() == before


def test_an_account_of_a_provider_needs_no_password(api: Api) -> None:
    user = invited(invited_at=None)
    at = timezone.now()
    Identity.objects.create(
        provider="google", provider_id="7", user=user, identity_data={"sub": "7"}, created_at=at, updated_at=at
    )
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    read_session(api.post("/verify", {"type": "signup", "token_hash": secret.link_token}), "signup")
    assert User.objects.get().password == ""


@pytest.mark.parametrize("how", ["GET invite", "GET signup", "POST invite", "POST email"])
def test_an_invited_account_gets_an_unusable_password(api: Api, how: str) -> None:
    user = invited(confirmation_sent_at=timezone.now())
    make_session(user)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    method, type = how.split()
    if method == "GET":
        session_fragment(open_link(api, secret.link_token, type), type)
    else:
        response = api.post("/verify", {"type": type, "token_hash": secret.link_token})
        read_session(response, "invite" if type == "invite" else "signup")
    after = User.objects.get()
    assert after.password is not None
    assert after.password.startswith("$argon2id$")
    assert not hashing.verify_password("", after.password)
    assert after.confirmation_sent_at == user.confirmation_sent_at
    assert Session.objects.count() == 1


@pytest.mark.parametrize("how", ["GET signup", "POST invite", "POST email"])
def test_account_without_invitation_gets_no_password(api: Api, how: str) -> None:
    secret = make_one_time_token(invited(invited_at=None), TokenType.CONFIRMATION)
    method, type = how.split()
    if method == "GET":
        session_fragment(open_link(api, secret.link_token, type), type)
    else:
        response = api.post("/verify", {"type": type, "token_hash": secret.link_token})
        read_session(response, "invite" if type == "invite" else "signup")
    assert User.objects.get().password == ""


@pytest.mark.parametrize(
    ("type", "purpose", "had"),
    [
        ("signup", TokenType.CONFIRMATION, PASSWORD),
        ("invite", TokenType.CONFIRMATION, PASSWORD),
        ("recovery", TokenType.RECOVERY, PASSWORD),
        ("magiclink", TokenType.RECOVERY, PASSWORD),
        ("recovery", TokenType.RECOVERY, ""),
        ("email", TokenType.RECOVERY, ""),
    ],
)
def test_later_password_is_ignored(api: Api, type: str, purpose: TokenType, had: str) -> None:
    user = make_user(email=EMAIL, password=had, confirmed=purpose == TokenType.RECOVERY)
    secret = make_one_time_token(user, purpose)
    response = api.post("/verify", {"type": type, "token_hash": secret.link_token, "password": "x"})
    assert response.status_code == 200
    assert User.objects.get().password == user.password


# Passwords of unconfirmed accounts


def stranger_signs_up(api: Api) -> None:
    assert api.post("/signup", {"email": EMAIL, "password": "a stranger's choice"}).status_code == 200
    backdate_rate_limits(timedelta(hours=1))


def can_sign_in(api: Api, password: str) -> bool:
    return api.post("/token?grant_type=password", {"email": EMAIL, "password": password}).status_code == 200


@pytest.mark.parametrize("path", ["/otp", "/magiclink"])
@pytest.mark.parametrize("form", ["link", "code", "type email"])
def test_a_magic_link_removes_a_password_set_before_verification(
    api: Api, mailbox: Mailbox, path: str, form: str
) -> None:
    stranger_signs_up(api)
    api.post(path, {"email": EMAIL})
    secret = mailbox.emails[-1].variables
    match form:
        case "link":
            response = open_link(api, secret["TokenHash"], "signup")
        case "code":
            response = api.post("/verify", {"type": "signup", "email": EMAIL, "token": secret["Token"]})
        case _:
            response = api.post("/verify", {"type": "email", "email": EMAIL, "token": secret["Token"]})
    assert response.status_code in (200, 303)
    assert User.objects.get().email_confirmed_at is not None
    assert not can_sign_in(api, "a stranger's choice")


def test_a_recovery_removes_a_password_set_before_verification(api: Api, mailbox: Mailbox) -> None:
    stranger_signs_up(api)
    api.post("/recover", {"email": EMAIL})
    session_fragment(open_link(api, mailbox.emails[-1].variables["TokenHash"], "recovery"), "recovery")
    assert not can_sign_in(api, "a stranger's choice")


def test_a_magic_link_request_invalidates_an_earlier_confirmation(api: Api, mailbox: Mailbox) -> None:
    stranger_signs_up(api)
    api.post("/magiclink", {"email": EMAIL})
    first = mailbox.emails[0].variables
    assert_link_error(open_link(api, first["TokenHash"], "signup"), "otp_expired", LINK_DEAD[2])
    assert User.objects.get().email_confirmed_at is None


def test_a_resent_confirmation_preserves_the_password_of_its_sign_up(api: Api, mailbox: Mailbox) -> None:
    api.post("/signup", SIGN_UP)
    backdate_rate_limits(timedelta(hours=1))
    api.post("/resend", {"type": "signup", "email": EMAIL})
    session_fragment(open_link(api, mailbox.emails[-1].variables["TokenHash"], "signup"), "signup")
    assert can_sign_in(api, PASSWORD)
