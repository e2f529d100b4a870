"""DELETE /admin/users/{user_id}: remaining rows, and credentials that stop working."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import Factor, Identity, User
from accounts.users import account_creation
from authsvc import messaging
from authsvc.messaging import Email, EmailType
from mailer.models import Attempt
from tests.accounts.administration.admin_requests import ask, can_sign_in, expect_success
from tests.conftest import Api
from tests.factories import (
    AUDIENCE,
    PASSWORD,
    VERIFIER,
    make_factor,
    make_flow,
    make_legacy_tokens,
    make_one_time_token,
    make_session,
    make_user,
)
from tests.observations import audit_payloads, audit_trail, table_contents
from tokens.models import FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

KNOWN = UUID("11111111-1111-4111-8111-111111111111")
EMAIL = "user@example.com"
PHONE = "15551234567"


def path(user: User) -> str:
    return f"/admin/users/{user.id}"


def make_full_account() -> User:
    """A user with a row in every table that can have one."""
    user = make_user(email=EMAIL, phone=PHONE, email_change="new@example.com")
    factor = make_factor(user, friendly_name="phone", secret="s")
    make_session(user, factor_id=factor.id)
    make_legacy_tokens(user)
    for token_type in TokenType:
        make_one_time_token(user, token_type)
    make_flow(user)
    FlowState.objects.create(provider_type="google", authentication_method="oauth", linking_target_id=user.id)
    with transaction.atomic():
        messaging.send(Email(type=EmailType.RECOVERY, to=EMAIL, variables={"Token": "123456"}, user_id=user.id))
    Attempt.objects.create(
        message_id=uuid4(), channel="email", kind="recovery", user_id=user.id, attempt=1, outcome="delivered"
    )
    return user


def mentions(text: str) -> dict[str, int]:
    """Table → number of rows in which the text stands, in whatever column."""
    with connection.cursor() as cursor:
        counts = {}
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT count(*) FROM "{table}" t WHERE t::text ILIKE %s', [f"%{text}%"])
            counts[table] = cursor.fetchone()[0]
        return {table: number for table, number in counts.items() if number}


def messages_waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'mailer.deliver' AND status = 'todo'")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("body", [None, b"", b"null", {}, {"should_soft_delete": False}, {"should_soft_delete": None}])
def test_deletion_leaves_audit_entries_only(api: Api, body: Any) -> None:
    before = messages_waiting()
    user = make_full_account()
    bystander = make_session()
    assert set(mentions(str(user.id))) > {"users", "sessions", "identities", "mfa_factors", "flow_state"}
    assert messages_waiting() == before + 1
    response = ask(api, "DELETE", path(user), body)
    assert (response.status_code, response.json()) == (200, {})
    assert set(mentions(str(user.id))) == {"audit_log_entries"}
    assert set(mentions(EMAIL)) == {"audit_log_entries"}
    assert messages_waiting() == before
    assert audit_payloads()[-1] == {
        "action": "user_deleted",
        "actor_id": "00000000-0000-0000-0000-000000000000",
        "actor_username": "service_role",
        "actor_role": "service_role",
        "actor_via_sso": False,
        "log_type": "team",
        "traits": {"user_id": str(user.id), "user_email": EMAIL, "user_phone": PHONE, "is_soft": False},
    }
    assert api.get("/user", bearer=bystander.access_token).status_code == 200


@pytest.mark.parametrize(("soft", "code"), [(False, "user_not_found"), (True, "session_not_found")])
def test_credentials_of_deleted_user_are_rejected(api: Api, soft: bool, code: str) -> None:
    user = make_user(email=EMAIL)
    made = make_session(user)
    [*_, legacy] = make_legacy_tokens(user)
    secret, flow = make_one_time_token(user), make_flow(user)
    expect_success(api, "DELETE", path(user), {"should_soft_delete": soft})
    before = table_contents()
    assert api.get("/user", bearer=made.access_token).json()["error_code"] == code
    for token in (made.refresh_token, legacy.token):
        response = api.post("/token?grant_type=refresh_token", {"refresh_token": token})
        assert response.json()["error_code"] == "refresh_token_not_found"
    response = api.post("/token?grant_type=pkce", {"auth_code": flow.auth_code, "code_verifier": VERIFIER})
    assert response.json()["error_code"] == "flow_state_not_found"
    for proof in ({"token_hash": secret.link_token}, {"email": EMAIL, "token": secret.code}):
        assert api.post("/verify", {"type": "recovery", **proof}).json()["error_code"] == "otp_expired"
    assert not can_sign_in(api, PASSWORD, email=EMAIL)
    assert table_contents() == before


def test_soft_deletion_removes_personal_data(api: Api) -> None:
    account_creation.create_user_as_administrator(
        id=KNOWN,
        email=EMAIL,
        phone=PHONE,
        password_hash="x",
        metadata={"full_name": "Annabel Testperson"},
        audience=AUDIENCE,
        at=timezone.now(),
        role="editor",
        email_confirmed_at=timezone.now(),
        invited_at=timezone.now(),
        banned_until=timezone.now() + timedelta(hours=1),
    )
    user = User.objects.get(id=KNOWN)
    make_factor(user)
    make_session(user)
    make_one_time_token(user)
    before = expect_success(api, "GET", path(user))
    assert expect_success(api, "DELETE", path(user), {"should_soft_delete": True}) == {}
    shown = expect_success(api, "GET", path(user))
    assert shown["email"] == "FomaASjH_1gNpf-AD0ZegS3-4-Z6TVpW-9_4mdBFFQc"
    assert shown["phone"] == "2jkEBgDjEERHcUz"
    assert shown["new_email"] == "vXZipe60FhTnINR3q_yyJy4ZqKcKk7fjvIVg1ErTJuk"
    assert shown["new_phone"] == "vXZipe60FhTnINR"
    assert (shown["app_metadata"], shown["user_metadata"]) == ({}, {})
    assert "factors" not in shown
    assert shown["deleted_at"] == shown["updated_at"]
    kept = ("role", "aud", "banned_until", "email_confirmed_at", "invited_at", "created_at")
    assert {name: shown[name] for name in kept} == {name: before[name] for name in kept}
    identities = {identity["provider"]: identity for identity in shown["identities"]}
    assert identities["email"]["id"] == "2nwYTDX383VtO4WchFBS2BRlDnGaCAiNkzky3KfyxrU"
    assert [identity["identity_data"] for identity in shown["identities"]] == [{}, {}]
    assert User.objects.get(id=KNOWN).password is None
    assert (Session.objects.count(), OneTimeToken.objects.count(), Factor.objects.count()) == (0, 0, 0)
    for trace in (EMAIL, PHONE, "Testperson"):
        assert set(mentions(trace)) <= {"audit_log_entries"}


def test_second_soft_deletion_adds_audit_entry_only(api: Api) -> None:
    user = make_user(email=EMAIL)
    expect_success(api, "DELETE", path(user), {"should_soft_delete": True})
    before = expect_success(api, "GET", path(user))
    expect_success(api, "DELETE", path(user), {"should_soft_delete": True})
    assert expect_success(api, "GET", path(user)) == before
    assert [action for action, _ in audit_trail()] == ["user_deleted"] * 2


def test_a_soft_deleted_user_can_be_deleted(api: Api) -> None:
    user = make_full_account()
    expect_success(api, "DELETE", path(user), {"should_soft_delete": True})
    expect_success(api, "DELETE", path(user))
    assert set(mentions(str(user.id))) == {"audit_log_entries"}


@pytest.mark.parametrize("soft", [True, False])
def test_email_of_deleted_user_can_be_reused(api: Api, soft: bool) -> None:
    user = make_user(email=EMAIL, phone=PHONE)
    expect_success(api, "DELETE", path(user), {"should_soft_delete": soft})
    signed_up = api.post("/signup", {"email": EMAIL, "password": PASSWORD})
    assert signed_up.status_code == 200
    assert signed_up.json()["id"] != str(user.id)
    assert Identity.objects.filter(email=EMAIL).count() == 1
    assert expect_success(api, "POST", "/admin/users", {"phone": PHONE})["phone"] == PHONE


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', {"should_soft_delete": "yes"}])
def test_a_malformed_body_deletes_no_user(api: Api, body: Any) -> None:
    user = make_user()
    assert ask(api, "DELETE", path(user), body).json()["error_code"] == "bad_json"
    assert User.objects.filter(id=user.id).exists()


def test_query_parameters_are_ignored(api: Api) -> None:
    user = make_user()
    expect_success(api, "DELETE", f"{path(user)}?should_soft_delete=true")
    assert not User.objects.filter(id=user.id).exists()
