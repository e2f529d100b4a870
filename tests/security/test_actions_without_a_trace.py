"""An operator, an administrator or a thief acts, and the audit trail does not tell who did what from where."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.models import AuditLogEntry
from tests.accounts.administration.admin_requests import ask, expect_success
from tests.accounts.mfa import factor_requests
from tests.authsvc.console.conftest import Console
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_factor, make_session, make_user
from tests.observations import audit_payloads
from tokens.models import Session

pytestmark = pytest.mark.django_db

ADDRESS = "203.0.113.7"
HERE = {"X-Forwarded-For": ADDRESS}
USERS = "/operator/accounts/user/"


@pytest.fixture
def operator() -> User:
    return make_user(email="op@example.com", role="svc_admin")


def latest() -> dict[str, Any]:
    return audit_payloads(with_ids=True)[-1]


def test_every_entry_of_a_user_has_address_request_and_session(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    email = "ann@example.com"
    session = api.post("/signup", {"email": email, "password": PASSWORD}, headers=HERE).json()
    session = api.post(
        "/token?grant_type=refresh_token", {"refresh_token": session["refresh_token"]}, headers=HERE
    ).json()
    api.post("/token?grant_type=password", {"email": email, "password": PASSWORD}, headers=HERE)
    api.put("/user", {"data": {"full_name": "Ann"}}, bearer=session["access_token"], headers=HERE)
    api.post("/recover", {"email": email}, headers=HERE)
    api.post("/logout?scope=local", bearer=session["access_token"], headers=HERE)
    entries = AuditLogEntry.objects.all()
    payloads = audit_payloads(with_ids=True)
    assert {payload["action"] for payload in payloads} == {
        "user_signedup", "login", "token_refreshed", "user_modified", "user_recovery_requested", "logout"
    }  # fmt: skip
    assert {entry.ip_address for entry in entries} == {ADDRESS}
    assert all(payload["request_id"] for payload in payloads)
    sessions = {payload["session_id"] for payload in payloads if payload["action"] != "user_recovery_requested"}
    kept = Session.objects.get()  # that of the second sign-in
    assert len(sessions) == 2
    assert str(kept.id) in sessions


@pytest.mark.parametrize(
    "type", ["magiclink", "recovery", "signup", "email_change_new", "email_change_current", "invite"]
)
def test_a_link_that_signs_a_user_in_is_booked_on_the_administrator(api: Api, operator: User, type: str) -> None:
    token = make_session(operator).access_token
    user = make_user(email="ann@example.com", confirmed=type not in ("signup", "invite"))
    body = {"type": type, "email": "ann@example.com", "password": PASSWORD, "new_email": "new@example.com"}
    assert api.post("/admin/generate_link", body, bearer=token, headers=HERE).status_code == 200
    entry = latest()
    assert (entry["actor_id"], entry["actor_username"], entry["actor_role"]) == (
        str(operator.id), "op@example.com", "svc_admin"
    )  # fmt: skip
    assert entry["traits"]["user_id"] == str(user.id)
    assert entry["session_id"]
    assert AuditLogEntry.objects.latest("created_at").ip_address == ADDRESS


def test_a_removed_factor_is_booked_on_the_administrator(api: Api, operator: User) -> None:
    token = make_session(operator).access_token
    user = make_user(email="ann@example.com")
    factor = make_factor(user)
    assert api.delete(f"/admin/users/{user.id}/factors/{factor.id}", bearer=token).status_code == 200
    entry = latest()
    assert (entry["action"], entry["actor_id"]) == ("factor_deleted", str(operator.id))
    # The user's own removal stays the user's.
    owner = factor_requests.make_owner()
    Session.objects.filter(id=owner.session.id).update(aal="aal2", factor_id=owner.factor.id)
    assert factor_requests.unenroll(api, owner.token, owner.factor.id).status_code == 200
    assert (latest()["action"], latest()["actor_id"]) == ("factor_unenrolled", str(owner.user.id))


def test_a_service_token_is_named_by_subject_and_role(api: Api) -> None:
    user = make_user()
    expect_success(api, "PUT", f"/admin/users/{user.id}", {"role": "editor", "password": "a new password"})
    entry = latest()
    assert (entry["actor_id"], entry["actor_role"]) == (str(UUID(int=0)), "service_role")
    assert entry["traits"]["changes"]["role"] == {"old": "authenticated", "new": "editor"}
    assert entry["traits"]["changes"]["password"] == {"old": "[hidden]", "new": "[hidden]"}
    user.refresh_from_db()
    assert str(user.password) not in str(entry)


def test_custom_providers_leave_old_and_new_values_without_secrets(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(custom_providers={"enabled": True})
    definition = {
        "provider_type": "oauth2",
        "identifier": "custom:acme",
        "name": "Acme",
        "client_id": "i",
        "client_secret": "very-secret",
        "authorization_url": "https://8.8.8.8/a",
        "token_url": "https://8.8.8.8/t",
        "userinfo_url": "https://8.8.8.8/u",
    }
    assert ask(api, "POST", "/admin/custom-providers", definition).status_code == 201
    ask(api, "PUT", "/admin/custom-providers/custom:acme", {"name": "Other", "client_secret": "more-secret"})
    ask(api, "DELETE", "/admin/custom-providers/custom:acme")
    created, updated, deleted = audit_payloads()
    assert (created["action"], updated["action"], deleted["action"]) == (
        "custom_provider_created", "custom_provider_updated", "custom_provider_deleted"
    )  # fmt: skip
    assert updated["traits"]["changes"]["name"] == {"old": "Acme", "new": "Other"}
    assert "-secret" not in str([created, updated, deleted])


def test_console_actions_name_operator_target_values_and_reason(operator: User) -> None:
    console = Console()
    assert console.sign_in("op@example.com").status_code == 302
    users = [make_user(email=f"user{number}@example.com") for number in range(2)]
    token = console.cookie("operator_csrf")
    form: Any = {
        "csrfmiddlewaretoken": token,
        "action": "ban",
        "_selected_action": [str(user.id) for user in users],
        "confirmed": "1",
        "action-duration": "1h",
        "reason": "reported\0 in ticket 17",
    }
    response: Any = console.client.post(USERS, form, headers=HERE)
    assert response.status_code == 302
    entries = [payload for payload in audit_payloads(with_ids=True) if payload["action"] == "user_modified"]
    assert {entry["traits"]["user_id"] for entry in entries} == {str(user.id) for user in users}
    for entry in entries:
        assert (entry["actor_id"], entry["actor_username"]) == (str(operator.id), "op@example.com")
        assert entry["reason"] == "reported in ticket 17"
        assert entry["traits"]["changes"]["banned_until"]["old"] is None
        assert entry["traits"]["changes"]["banned_until"]["new"]
        assert entry["session_id"]
    page = console.get(f"/operator/core/auditlogentry/?q={users[0].id}").content.decode()
    assert "op@example.com (administrator)" in page
    assert "reported in ticket 17" in page
    assert "banned until: none →" in page


def test_an_entry_of_an_earlier_version_stays_readable(operator: User) -> None:
    payload = {
        "action": "user_deleted", "actor_id": str(UUID(int=0)), "actor_username": "service_role",
        "actor_via_sso": False, "log_type": "team",
        "traits": {"user_id": str(operator.id), "user_email": "x@example.com"},
    }  # fmt: skip
    entry = AuditLogEntry.objects.create(payload=payload, created_at=timezone.now())
    console = Console()
    console.sign_in("op@example.com")
    assert "service_role (administrator)" in console.get("/operator/core/auditlogentry/").content.decode()
    assert console.get(f"/operator/core/auditlogentry/{entry.id}/change/").status_code == 200


def test_a_stolen_operator_password_leaves_refusals(api: Api, operator: User) -> None:
    Console().sign_in("op@example.com", "a wrong guess")
    entry = AuditLogEntry.objects.get()
    payload: Any = entry.payload
    assert (payload["action"], payload["actor_id"]) == ("sign_in_refused", str(operator.id))
    assert entry.ip_address == "127.0.0.1"
