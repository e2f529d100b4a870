"""PUT /user with a new password: sessions and secrets, the notification, and the current password."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jwt
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from authsvc.conf import Rate
from authsvc.messaging import EmailType
from tests.accounts.profile.profile_requests import (
    CURRENT_PASSWORD,
    EMAIL,
    MODIFIED,
    NEW_PASSWORD,
    PHONE,
    TOO_SHORT,
    UPDATED_PASSWORD,
    put,
    sign_in,
)
from tests.conftest import Api, ChangeConfig, Mailbox, read_success
from tests.factories import PASSWORD, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_trail, table_contents
from tokens.models import OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

SENT_TIMES = ("confirmation", "recovery", "email_change", "phone_change", "reauthentication")


def queued_jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        return int(cursor.fetchone()[0])


# The password


def test_new_password_revokes_other_sessions_and_secrets(api: Api, mailbox: Mailbox) -> None:
    columns: dict[str, Any] = {f"{name}_sent_at": timezone.now() - timedelta(minutes=5) for name in SENT_TIMES}
    user = make_user(email=EMAIL, **columns)
    for token_type in TokenType:
        make_one_time_token(user, token_type)
    older, made, stranger = make_session(user), make_session(user), make_session()
    make_one_time_token(stranger.user)

    shown = read_success(put(api, made, {"password": NEW_PASSWORD}))

    assert not {f"{name}_sent_at" for name in SENT_TIMES} & set(shown)
    after = User.objects.get(id=user.id)
    assert hashing.verify_password(NEW_PASSWORD, after.password)
    assert {getattr(after, f"{name}_sent_at") for name in SENT_TIMES} == {None}
    assert set(Session.objects.values_list("id", flat=True)) == {made.session.id, stranger.session.id}
    assert [row.user_id for row in OneTimeToken.objects.all()] == [stranger.user.id]
    assert audit_trail() == [UPDATED_PASSWORD, MODIFIED]
    (mail,) = mailbox.emails
    assert (mail.type, mail.to, mail.user_id) == (EmailType.PASSWORD_CHANGED, EMAIL, user.id)
    assert set(mail.variables) == {"SiteURL", "Email", "Data"}

    assert [sign_in(api, password) for password in (PASSWORD, NEW_PASSWORD)] == [400, 200]
    for sign, status in ((made, 200), (older, 400)):
        response = api.post("/token?grant_type=refresh_token", {"refresh_token": sign.refresh_token})
        assert response.status_code == status
    assert api.get("/user", bearer=older.access_token).json()["error_code"] == "session_not_found"


def test_new_password_withdraws_pending_change(api: Api) -> None:
    made = make_session(make_user(email=EMAIL, email_change="new@example.com", phone_change=PHONE))
    shown = read_success(put(api, made, {"password": NEW_PASSWORD}))
    assert {"new_email", "new_phone"}.isdisjoint(shown)


def test_token_without_session_revokes_all_sessions(api: Api) -> None:
    user = make_user(email=EMAIL)
    make_session(user)
    claims = jwt.decode(make_session(user).access_token, options={"verify_signature": False})
    del claims["session_id"]
    bearer = jwt.encode(claims, settings.AUTH.jwt.secret.reveal())
    assert api.put("/user", {"password": NEW_PASSWORD}, bearer=bearer).status_code == 200
    assert not Session.objects.exists()


def test_a_user_without_a_password_gets_the_first_one(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(passwords={"update_requires_current": True})
    made = make_session(make_user(email=EMAIL, password=""))
    read_success(put(api, made, {"password": NEW_PASSWORD}))
    assert sign_in(api, NEW_PASSWORD) == 200


@pytest.mark.parametrize("has_address", [True, False])
@pytest.mark.parametrize("switched_on", [True, False])
def test_a_notification_is_queued_when_enabled(
    api: Api, auth_config: ChangeConfig, has_address: bool, switched_on: bool
) -> None:
    user = (
        make_user(email=EMAIL) if has_address else make_user(email="", phone=PHONE, phone_confirmed_at=timezone.now())
    )
    made = make_session(user)
    auth_config(mailer={"notifications": frozenset({"password_changed"} if switched_on else ())})
    before = queued_jobs()
    read_success(put(api, made, {"password": NEW_PASSWORD}))
    assert queued_jobs() - before == int(has_address and switched_on)


def test_exhausted_quota_does_not_prevent_password_change(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"notifications": frozenset({"password_changed"})}, limits={"email_sent": Rate(events=0)})
    read_success(put(api, make_session(), {"password": NEW_PASSWORD}))


@pytest.mark.parametrize(
    ("password", "status", "error_code", "text", "further"),
    [
        ("", 422, "weak_password", TOO_SHORT, {"weak_password": {"reasons": ["length"]}}),
        ("12345", 422, "weak_password", TOO_SHORT, {"weak_password": {"reasons": ["length"]}}),
        ("x" * 73, 400, "validation_failed", "Password cannot be longer than 72 characters", {}),
        (PASSWORD, 422, "same_password", "New password should be different from the old password.", {}),
    ],
)
def test_unchanged_password_is_rejected(
    api: Api, password: str, status: int, error_code: str, text: str, further: dict[str, Any]
) -> None:
    made = make_session(make_user(email=EMAIL))
    before = table_contents()
    assert_error(put(api, made, {"password": password, "data": {"a": 1}}), status, error_code, text, **further)
    assert table_contents() == before


def test_the_current_password_of_an_imported_hash_is_recognised(api: Api, auth_config: ChangeConfig) -> None:
    stored = "$2y$04$mIJxfrCaEI3GukZe11CiXublhEFanu5.ododkll1WphfSp6pn4zIu"  # of "test"
    made = make_session(make_user(email=EMAIL, password_hash=stored))
    auth_config(passwords={"update_requires_current": True})
    response = put(api, made, {"password": NEW_PASSWORD, "current_password": "Test"})
    assert_error(response, 400, "current_password_invalid", CURRENT_PASSWORD)
    read_success(put(api, made, {"password": NEW_PASSWORD, "current_password": "test"}))
    assert sign_in(api, NEW_PASSWORD) == 200


# The current password


@pytest.fixture
def requires_current(auth_config: ChangeConfig) -> None:
    auth_config(passwords={"update_requires_current": True})


@pytest.mark.usefixtures("requires_current")
@pytest.mark.parametrize(
    ("current", "error_code"),
    [
        ({}, "current_password_required"),
        ({"current_password": ""}, "current_password_required"),
        ({"current_password": "wrong"}, "current_password_invalid"),
        ({"current_password": NEW_PASSWORD}, "current_password_invalid"),
        ({"current_password": PASSWORD}, ""),
    ],
)
def test_the_current_password_can_be_required(api: Api, current: dict[str, str], error_code: str) -> None:
    made = make_session(make_user(email=EMAIL))
    before = table_contents()
    response = put(api, made, {"password": NEW_PASSWORD, **current})
    if error_code:
        assert_error(response, 400, error_code, CURRENT_PASSWORD)
        assert table_contents() == before
    else:
        read_success(response)


@pytest.mark.usefixtures("requires_current")
@pytest.mark.parametrize(
    ("method", "status"), [("otp", 200), ("magiclink", 200), ("recovery", 200), ("password", 400), ("anonymous", 400)]
)
def test_a_session_by_recovery_needs_no_current_password(api: Api, method: str, status: int) -> None:
    made = make_session(make_user(email=EMAIL), method=method)
    assert put(api, made, {"password": NEW_PASSWORD}).status_code == status


@pytest.mark.usefixtures("requires_current")
def test_other_changes_need_no_current_password(api: Api) -> None:
    read_success(put(api, make_session(), {"data": {"a": 1}}))
