"""GET and PUT /admin/users/{user_id}."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from tests.accounts.administration.admin_requests import (
    EMAIL_EXISTS,
    PHONE_EXISTS,
    USER_NOT_FOUND,
    ask,
    can_sign_in,
    expect_success,
)
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_factor, make_flow, make_one_time_token, make_session, make_user
from tests.observations import assert_error, audit_payloads, audit_trail, table_contents
from tokens.models import FlowState, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"
PHONE = "15551234567"
USER_ID = "11111111-1111-4111-8111-111111111111"


def path(user: User) -> str:
    return f"/admin/users/{user.id}"


def test_get_returns_complete_user_without_changes(api: Api) -> None:
    user = make_user(email=EMAIL, data={"a": 1})
    make_factor(user, friendly_name="phone", secret="hidden")
    before = table_contents()
    response = ask(api, "GET", path(user))
    shown = response.json()
    assert (shown["id"], shown["email"], shown["user_metadata"]["a"]) == (str(user.id), EMAIL, 1)
    assert [factor["friendly_name"] for factor in shown["factors"]] == ["phone"]
    assert response.headers["Cache-Control"] == "no-store"
    assert b"hidden" not in response.content
    assert b"argon2" not in response.content
    assert table_contents() == before


def test_user_of_other_audience_is_returned_by_id(api: Api) -> None:
    user = make_user(audience="other")
    assert expect_success(api, "GET", path(user))["aud"] == "other"
    assert expect_success(api, "PUT", path(user), {"role": "editor"})["role"] == "editor"


@pytest.mark.parametrize("written", ["{id}", "{hex}", "%7B{id}%7D", "urn:uuid:{id}", "{id}/"])
def test_an_id_can_be_written_in_several_ways(api: Api, written: str) -> None:
    user = make_user()
    assert expect_success(api, "GET", f"/admin/users/{written.format(id=user.id, hex=user.id.hex)}")["id"] == str(
        user.id
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_unknown_id_is_not_found(api: Api, method: str) -> None:
    make_user()
    before = table_contents()
    assert_error(ask(api, method, f"/admin/users/{USER_ID}", {}), *USER_NOT_FOUND)
    assert_error(ask(api, method, "/admin/users/abc", {}), 404, "validation_failed", "user_id must be an UUID")
    assert table_contents() == before


def test_several_changes_in_one_request(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL)
    changes = {
        "role": "testing",
        "app_metadata": {"roles": ["writer", "editor"]},
        "ban_duration": "24h",
        "email": "New@Example.com",
        "phone": "+234567890",
    }
    shown = expect_success(api, "PUT", path(user), changes)
    assert (shown["role"], shown["email"], shown["phone"]) == ("testing", "new@example.com", "234567890")
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"], "roles": ["writer", "editor"]}
    assert "banned_until" in shown
    identities = {identity["provider"]: identity for identity in shown["identities"]}
    assert identities["email"]["identity_data"]["email"] == identities["email"]["email"] == "new@example.com"
    assert identities["email"]["identity_data"]["email_verified"] is False
    assert identities["phone"]["identity_data"] == {
        "sub": str(user.id),
        "phone": "234567890",
        "email_verified": False,
        "phone_verified": False,
    }
    assert {identity["id"] for identity in shown["identities"]} == {str(user.id)}
    assert shown == expect_success(api, "GET", path(user))
    assert (mailbox.emails, mailbox.sms) == ([], [])
    (entry,) = audit_payloads()
    recorded = entry["traits"].pop("changes")
    assert recorded["email"] == {"old": user.email, "new": "new@example.com"}
    assert recorded["role"] == {"old": "authenticated", "new": "testing"}
    assert recorded["app_metadata.roles"] == {"old": None, "new": ["writer", "editor"]}
    assert set(recorded) == {"email", "phone", "role", "banned_until", "app_metadata.roles"}
    assert [entry] == [
        {
            "action": "user_modified",
            "actor_id": "00000000-0000-0000-0000-000000000000",
            "actor_username": "service_role",
            "actor_role": "service_role",
            "actor_via_sso": False,
            "log_type": "user",
            "traits": {"user_id": str(user.id), "user_email": "new@example.com", "user_phone": "234567890"},
        }
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        b"null",
        {"id": USER_ID, "aud": "other", "password_hash": "$2y$10$x", "is_sso_user": True},
        {"role": "", "email": "", "phone": "", "ban_duration": "", "user_metadata": None, "app_metadata": None},
        {"role": "  ", "email_confirm": False, "phone_confirm": False, "user_metadata": {}, "app_metadata": {}},
    ],
)
def test_an_empty_request_changes_nothing(api: Api, changes: Any) -> None:
    user = make_user(banned_until=timezone.now() + timedelta(hours=1))
    make_session(user)
    before = expect_success(api, "GET", path(user))
    after = expect_success(api, "PUT", path(user), changes)
    assert {**after, "updated_at": ""} == {**before, "updated_at": ""}
    assert Session.objects.count() == 1
    assert [action for action, _ in audit_trail()] == ["user_modified"]


@pytest.mark.parametrize(
    ("changes", "status", "code", "text"),
    [
        ({"email": "xx"}, 400, "validation_failed", "Unable to validate email address: invalid format"),
        ({"phone": "x"}, 400, "validation_failed", "Invalid phone number format (E.164 required)"),
        (
            {"ban_duration": "24"},
            400,
            "validation_failed",
            'invalid format for ban duration: time: missing unit in duration "24"',
        ),
        ({"password": "ä" * 37}, 400, "validation_failed", "Password cannot be longer than 72 characters"),
        ({"role": "r" * 256}, 400, "validation_failed", "The role is too long"),
        # The first error is returned.
        ({"email": "xx", "phone": "x"}, 400, "validation_failed", "Unable to validate email address: invalid format"),
        ({"phone": "x", "ban_duration": "x"}, 400, "validation_failed", "Invalid phone number format (E.164 required)"),
    ],
)
def test_an_invalid_request_changes_nothing(api: Api, changes: Any, status: int, code: str, text: str) -> None:
    user = make_user()
    before = table_contents()
    assert_error(ask(api, "PUT", path(user), {"role": "editor", **changes}), status, code, text)
    assert table_contents() == before


@pytest.mark.parametrize("password", ["", "short"])
def test_password_policy_applies_to_administrators(api: Api, password: str) -> None:
    response = ask(api, "PUT", path(make_user()), {"password": password, "ban_duration": None})
    text = "Password should be at least 6 characters."
    assert_error(response, 422, "weak_password", text, weak_password={"reasons": ["length"]})


def test_a_malformed_ban_is_reported_before_a_weak_password(api: Api) -> None:
    response = ask(api, "PUT", path(make_user()), {"password": "1", "ban_duration": "x"})
    assert response.json()["error_code"] == "validation_failed"


def test_body_of_other_type_is_rejected(api: Api) -> None:
    user = make_user()
    for body in (b"", b"[]", {"role": 1}, {"user_metadata": "x"}):
        assert ask(api, "PUT", path(user), body).json()["error_code"] == "bad_json"


def test_new_password_revokes_sessions_and_secrets(api: Api) -> None:
    user = make_user(email=EMAIL, recovery_sent_at=timezone.now(), email_change="new@example.com")
    signed_in = [make_session(user) for _ in range(2)]
    for token_type in (TokenType.RECOVERY, TokenType.EMAIL_CHANGE_NEW):
        make_one_time_token(user, token_type)
    make_flow(user)
    bystander = make_session()
    shown = expect_success(api, "PUT", path(user), {"password": "newsecret"})
    assert "recovery_sent_at" not in shown
    assert "new_email" not in shown
    assert list(Session.objects.values_list("id", flat=True)) == [bystander.session.id]
    assert (OneTimeToken.objects.count(), FlowState.objects.count()) == (0, 0)
    for session in signed_in:
        assert api.get("/user", bearer=session.access_token).json()["error_code"] == "session_not_found"
        response = api.post("/token?grant_type=refresh_token", {"refresh_token": session.refresh_token})
        assert response.json()["error_code"] == "refresh_token_not_found"
    assert can_sign_in(api, "newsecret", email=EMAIL)
    assert not can_sign_in(api, PASSWORD, email=EMAIL)


def test_user_can_be_banned_and_unbanned(api: Api) -> None:
    user = make_user(email=EMAIL)
    made = make_session(user)
    at = timezone.now()
    assert "banned_until" in expect_success(api, "PUT", path(user), {"ban_duration": "2h45m"})
    banned_until = User.objects.get().banned_until
    assert banned_until is not None
    assert timedelta(hours=2, minutes=45) <= banned_until - at < timedelta(hours=2, minutes=46)
    assert_error(api.get("/user", bearer=made.access_token), 403, "user_banned", "User is banned")
    assert not can_sign_in(api, PASSWORD, email=EMAIL)
    assert "banned_until" not in expect_success(api, "PUT", path(user), {"ban_duration": "none"})
    assert api.get("/user", bearer=made.access_token).status_code == 200
    assert can_sign_in(api, PASSWORD, email=EMAIL)


@pytest.mark.parametrize(
    ("stored", "sent", "merged"),
    [
        (
            {"roles": ["x"], "a": {"c": 2}, "provider": "email"},
            {"roles": None, "a": {"b": 1}},
            {"a": {"b": 1}, "provider": "email"},
        ),
        ({"a": 1}, {"a": None, "b": None}, {}),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"A": [None]}, {"a": 1, "A": [None]}),
    ],
)
def test_metadata_are_merged(api: Api, stored: Any, sent: Any, merged: Any) -> None:
    user = make_user(raw_app_meta_data=stored, raw_user_meta_data=stored)
    shown = expect_success(api, "PUT", path(user), {"app_metadata": sent, "user_metadata": sent})
    assert (shown["app_metadata"], shown["user_metadata"]) == (merged, merged)


def test_email_and_phone_can_be_confirmed(api: Api) -> None:
    user = make_user(email=EMAIL, phone=PHONE, confirmed=False)
    make_one_time_token(user, TokenType.CONFIRMATION)
    shown = expect_success(
        api, "PUT", path(user), {"email_confirm": True, "phone_confirm": True, "user_metadata": {"b": 1}}
    )
    assert shown["email_confirmed_at"] == shown["phone_confirmed_at"] == shown["updated_at"]
    assert shown["user_metadata"]["email_verified"] is True
    assert shown["user_metadata"]["b"] == 1
    assert OneTimeToken.objects.count() == 0
    assert can_sign_in(api, PASSWORD, email=EMAIL)


def test_confirmation_cannot_be_withdrawn(api: Api) -> None:
    user = make_user()
    assert "email_confirmed_at" in expect_success(api, "PUT", path(user), {"email_confirm": False})


def test_unchanged_email_stays_confirmed(api: Api) -> None:
    user = make_user(email=EMAIL)
    Identity.objects.update(identity_data={"sub": str(user.id), "email": EMAIL, "email_verified": True})
    secret = make_one_time_token(user)
    shown = expect_success(api, "PUT", path(user), {"email": EMAIL, "role": "editor"})
    assert shown["identities"][0]["identity_data"]["email_verified"] is True
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200


@pytest.mark.parametrize("changes", [{"email": "new@example.com"}, {"phone": PHONE}])
def test_secrets_of_previous_address_are_invalid(api: Api, changes: dict[str, str]) -> None:
    user = make_user(email=EMAIL, phone="15557654321")
    secret = make_one_time_token(user)
    flow = make_flow(user)
    expect_success(api, "PUT", path(user), changes)
    response = api.post("/verify", {"type": "recovery", "token_hash": secret.link_token})
    assert response.json()["error_code"] == "otp_expired"
    assert not FlowState.objects.filter(id=flow.id).exists()


def test_email_can_be_changed_and_confirmed_together(api: Api) -> None:
    shown = expect_success(api, "PUT", path(make_user()), {"email": EMAIL, "email_confirm": True})
    assert shown["identities"][0]["identity_data"]["email_verified"] is True
    assert shown["user_metadata"]["email_verified"] is True


@pytest.mark.parametrize(
    ("changes", "provider", "is_anonymous"),
    [
        ({"email": EMAIL, "email_confirm": True}, "email", False),
        ({"phone": PHONE, "phone_confirm": True}, "phone", False),
        ({"email": EMAIL}, "email", True),
        ({"email": EMAIL, "phone_confirm": True}, "email", True),
    ],
)
def test_an_anonymous_user_becomes_permanent(
    api: Api, changes: dict[str, Any], provider: str, is_anonymous: bool
) -> None:
    user = make_user(email="", password="", is_anonymous=True, raw_app_meta_data={})
    user.identities.all().delete()
    shown = expect_success(api, "PUT", path(user), changes)
    assert (shown["is_anonymous"], [identity["provider"] for identity in shown["identities"]]) == (
        is_anonymous,
        [provider],
    )
    assert shown["app_metadata"] == {}


@pytest.mark.parametrize("audience", ["authenticated", "other"])
def test_email_or_phone_of_other_user_is_rejected(api: Api, audience: str) -> None:
    make_user(email=EMAIL, phone=PHONE, audience=audience)
    user = make_user()
    before = table_contents()
    assert_error(ask(api, "PUT", path(user), {"email": EMAIL.upper()}), *EMAIL_EXISTS)
    assert_error(ask(api, "PUT", path(user), {"phone": PHONE}), *PHONE_EXISTS)
    assert table_contents() == before


def test_phone_of_sso_user_violates_unique_index(api: Api) -> None:
    make_user(phone=PHONE, is_sso_user=True)
    user = make_user()
    before = table_contents()
    assert_error(ask(api, "PUT", path(user), {"phone": PHONE, "password": "newsecret"}), *PHONE_EXISTS)
    assert table_contents() == before


def test_the_present_address_of_the_user_is_accepted(api: Api) -> None:
    user = make_user(email=EMAIL, phone=PHONE)
    at = timezone.now()
    identity_data = {"sub": "7", "email": "at.google@example.com"}
    Identity.objects.create(
        provider="google", provider_id="7", user=user, identity_data=identity_data, created_at=at, updated_at=at
    )
    assert expect_success(api, "PUT", path(user), {"email": "at.google@example.com", "phone": PHONE})["phone"] == PHONE


def test_users_of_sso_may_share_an_address(api: Api) -> None:
    make_user(email=EMAIL)
    user = make_user(is_sso_user=True)
    assert expect_success(api, "PUT", path(user), {"email": EMAIL})["email"] == EMAIL


def test_first_password_creates_email_identity_when_enabled(api: Api, auth_config: ChangeConfig) -> None:
    user = make_user(email=EMAIL, password="", raw_app_meta_data={"provider": "google", "providers": ["google"]})
    Identity.objects.update(provider="google", provider_id=str(uuid4()))
    auth_config(experimental={"email_identity_on_password_enabled": True})
    shown = expect_success(api, "PUT", path(user), {"password": "newsecret", "app_metadata": {"plan": "pro"}})
    assert [identity["provider"] for identity in shown["identities"]] == ["google", "email"]
    assert shown["identities"][1]["identity_data"]["email_verified"] is True
    assert shown["app_metadata"] == {"provider": "google", "providers": ["google", "email"], "plan": "pro"}


@pytest.mark.parametrize(
    ("columns", "enabled"),
    [
        ({}, False),
        ({"is_sso_user": True}, True),
        ({"is_anonymous": True}, True),
        ({"email_confirmed_at": None}, True),
    ],
)
def test_first_password_creates_no_identity_by_default(
    api: Api, auth_config: ChangeConfig, columns: dict[str, Any], enabled: bool
) -> None:
    user = make_user(email=EMAIL, password="", **columns)
    Identity.objects.update(provider="google", provider_id=str(uuid4()))
    auth_config(experimental={"email_identity_on_password_enabled": enabled})
    shown = expect_success(api, "PUT", path(user), {"password": "newsecret"})
    assert [identity["provider"] for identity in shown["identities"]] == ["google"]


def test_second_password_creates_no_identity(api: Api, auth_config: ChangeConfig) -> None:
    user = make_user(email=EMAIL)
    Identity.objects.update(provider="google", provider_id=str(uuid4()))
    auth_config(experimental={"email_identity_on_password_enabled": True})
    shown = expect_success(api, "PUT", path(user), {"password": "newsecret"})
    assert [identity["provider"] for identity in shown["identities"]] == ["google"]


def test_new_role_applies_to_next_token(api: Api) -> None:
    user = make_user(email=EMAIL)
    before = make_session(user)
    expect_success(api, "PUT", path(user), {"role": " svc_admin "})
    assert api.get("/admin/users", bearer=before.access_token).status_code == 403
    tokens = api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}).json()
    assert api.get("/admin/users", bearer=tokens["access_token"]).status_code == 200
    expect_success(api, "PUT", path(user), {"role": "authenticated"})
    assert api.get("/admin/users", bearer=tokens["access_token"]).status_code == 403
