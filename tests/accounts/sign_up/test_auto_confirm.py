"""POST /signup with auto-confirm: sessions at once, and errors for existing accounts."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from tests.accounts.sign_up.sign_up_requests import EMAIL, PHONE, SIGN_UP, read_session
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import CHALLENGE, PASSWORD, make_one_time_token, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents
from tokens.models import AmrClaim, FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db


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
