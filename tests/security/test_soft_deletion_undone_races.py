"""Attack: a sign-in or a change at the moment of a soft deletion leaves the deleted account with a session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from tests import factories
from tests.accounts.administration import admin_requests
from tests.concurrency import run_in_order
from tests.conftest import Api, ApiResponse
from tests.factories import PASSWORD, make_user
from tests.security import sign_in_attempts as attempts
from tests.security.sign_in_attempts import EMAIL, PHONE, Attempt, Prepare
from tests.tokens.token_requests import exchange_code, refresh
from tokens.models import OneTimeToken, Session

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("no_request_limits", "sign_in_methods", "github"),
]


def change_of_email(api: Api, user: User) -> Attempt:
    token = factories.make_session(user).access_token
    return lambda: api.put("/user", {"email": "new@example.com", "data": {"a": 1}}, bearer=token)


def recovery_email(api: Api, user: User) -> Attempt:
    return lambda: api.post("/recover", {"email": EMAIL})


def administration(api: Api, user: User) -> Attempt:
    return lambda: admin_requests.ask(api, "PUT", f"/admin/users/{user.id}", {"email": "back@example.com"})


REQUESTS: list[Prepare] = [
    attempts.by_password, attempts.by_link("recovery"), attempts.by_sms_code, attempts.by_flow, attempts.by_provider,
    attempts.by_linking, attempts.by_refresh, change_of_email, recovery_email, administration,
]  # fmt: skip


def delete(api: Api, user: User) -> ApiResponse:
    return admin_requests.ask(api, "DELETE", f"/admin/users/{user.id}", {"should_soft_delete": True})


def state_of(user: User) -> dict[str, Any]:
    """The row, its identities and the number of rows that give access to it."""
    row = User.objects.filter(id=user.id).values().get()
    identities = list(
        Identity.objects.filter(user=user).order_by("id").values("provider", "provider_id", "identity_data")
    )
    return {
        "row": row,
        "identities": identities,
        "sessions": Session.objects.filter(user=user).count(),
        "secrets": OneTimeToken.objects.filter(user=user).count(),
    }


@pytest.mark.parametrize("prepare", REQUESTS)
@pytest.mark.parametrize("deleted_first", [True, False])
def test_request_during_soft_deletion_does_not_undo_it(prepare: Prepare, deleted_first: bool, api: Api) -> None:
    user = make_user(email=EMAIL, phone=PHONE, phone_confirmed_at=timezone.now())
    request = prepare(api, user)
    calls = [lambda: delete(api, user), request] if deleted_first else [request, lambda: delete(api, user)]
    responses = run_in_order(user.id, *calls)
    assert responses[0 if deleted_first else 1].status_code == 200
    after = state_of(user)
    assert (after["sessions"], after["secrets"]) == (0, 0)
    assert after["row"]["deleted_at"] is not None
    assert (after["row"]["raw_app_meta_data"], after["row"]["raw_user_meta_data"]) == ({}, {})
    assert "@" not in after["row"]["email"] + after["row"]["email_change"]
    assert after["row"]["password"] is None
    assert all(identity["identity_data"] == {} for identity in after["identities"])
    # Other users sign in as before, and the address is free for a new account.
    other = make_user(email="bob@example.com")
    assert admin_requests.can_sign_in(api, PASSWORD, email=other.email or "")
    assert api.post("/signup", {"email": EMAIL, "password": PASSWORD}).status_code == 200


def test_session_of_a_deleted_account_is_worthless_and_a_second_deletion_removes_it(api: Api) -> None:
    user, bob = make_user(email=EMAIL), factories.make_session()
    signed_in = factories.make_session(user)
    row = Session.objects.filter(id=signed_in.session.id).values().get()
    claims = list(signed_in.session.amr_claims.values())
    assert delete(api, user).status_code == 200
    # The row that an earlier version left behind.
    Session.objects.create(**row)
    signed_in.session.amr_claims.model.objects.create(**claims[0])
    flow = factories.make_flow(user)
    secret = factories.make_one_time_token(user, identifier=EMAIL)
    assert api.get("/user", bearer=signed_in.access_token).json()["error_code"] == "session_not_found"
    assert api.put("/user", {"data": {}}, bearer=signed_in.access_token).json()["error_code"] == "session_not_found"
    assert refresh(api, signed_in.refresh_token).json()["error_code"] == "refresh_token_not_found"
    assert exchange_code(api, flow.auth_code).json()["error_code"] == "flow_state_not_found"
    verified = api.post("/verify", {"type": "recovery", "token_hash": secret.link_token})
    assert verified.json()["error_code"] == "otp_expired"
    assert api.get("/user", bearer=bob.access_token).status_code == 200
    assert delete(api, user).status_code == 200
    assert (state_of(user)["sessions"], state_of(user)["secrets"]) == (0, 0)
    assert refresh(api, bob.refresh_token).status_code == 200


def test_deleted_operator_loses_the_administration_api(api: Api) -> None:
    operator = make_user(role="svc_admin")
    token = factories.make_session(operator).access_token
    assert api.get("/admin/users", bearer=token).status_code == 200
    row = Session.objects.filter(user=operator).values().get()
    delete(api, operator)
    Session.objects.create(**row)
    assert api.get("/admin/users", bearer=token).status_code == 403


@pytest.mark.parametrize(
    "changes",
    [{"email": "back@example.com", "email_confirm": True}, {"password": PASSWORD}, {"ban_duration": "none"}, {}],
)
def test_administrators_cannot_change_a_deleted_account(changes: dict[str, Any], api: Api) -> None:
    user, bob = make_user(email=EMAIL), make_user()
    delete(api, user)
    before = state_of(user)
    path = f"/admin/users/{user.id}"
    assert admin_requests.ask(api, "PUT", path, changes).json()["error_code"] == "user_not_found"
    assert state_of(user) == before
    assert admin_requests.ask(api, "GET", path).status_code == 200
    assert admin_requests.ask(api, "PUT", f"/admin/users/{bob.id}", changes).status_code == 200


def test_ban_at_the_moment_of_a_sign_in_wins(api: Api) -> None:
    user = make_user(email=EMAIL)
    path = f"/admin/users/{user.id}"
    request = attempts.by_provider(api, user)
    responses = run_in_order(user.id, lambda: admin_requests.ask(api, "PUT", path, {"ban_duration": "24h"}), request)
    assert "error_code=user_banned" in responses[1].headers["Location"]
    assert Session.objects.filter(user=user, created_at__gt=timezone.now() - timedelta(hours=1)).count() == 1
    admin_requests.expect_success(api, "PUT", path, {"ban_duration": "none"})
    assert admin_requests.can_sign_in(api, PASSWORD, email=EMAIL)
