"""Listing, renaming and removing passkeys, by users and administrators, and the setting that disables passkeys."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from accounts.models import Passkey
from authsvc.api.renderers import rfc3339
from tests.accounts.administration import admin_requests
from tests.accounts.passkeys.passkey_requests import NEEDS_AAL2, NOT_FOUND, make_owner, register, sign_in
from tests.conftest import Api, ChangeConfig, read_success
from tests.factories import make_factor, make_session, make_user
from tests.fakes.authenticator import Authenticator
from tests.observations import assert_error, audit_payloads, table_contents
from tests.tokens.token_requests import refresh
from tokens.models import Session

pytestmark = pytest.mark.django_db

NO_TOKEN = (401, "no_authorization", "This endpoint requires a valid Bearer token")
ROUTES = [
    ("POST", "/passkeys/registration/options"),
    ("POST", "/passkeys/registration/verify"),
    ("POST", "/passkeys/authentication/options"),
    ("POST", "/passkeys/authentication/verify"),
    ("GET", "/passkeys"),
    ("PATCH", "/passkeys/6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11"),
    ("DELETE", "/passkeys/6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11"),
]


# The switch


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("bearer", ["", "nonsense"])
def test_endpoints_are_not_found_while_disabled(
    api: Api, auth_config: ChangeConfig, method: str, path: str, bearer: str
) -> None:
    auth_config(passkeys={"enabled": False})
    assert_error(api.request(method, path, "x", bearer=bearer), 404, "passkey_disabled", "Passkeys are disabled")


def test_administrators_list_passkeys_while_disabled(api: Api, auth_config: ChangeConfig) -> None:
    holder = make_owner(api)
    auth_config(passkeys={"enabled": False})
    path = f"/admin/users/{holder.user.id}/passkeys"
    (shown,) = admin_requests.expect_success(api, "GET", path)
    assert shown["id"] == str(holder.passkey.id)
    assert admin_requests.ask(api, "DELETE", f"{path}/{holder.passkey.id}").status_code == 204


# The list


def test_a_new_user_has_no_passkeys_even_if_anonymous(api: Api) -> None:
    for user in (make_user(), make_user(email="", is_anonymous=True)):
        response = api.get("/passkeys", bearer=make_session(user).access_token)
        assert (response.status_code, response.json()) == (200, [])
    assert_error(api.get("/passkeys"), *NO_TOKEN)


def test_own_passkeys_are_listed_oldest_first(api: Api) -> None:
    holder = make_owner(api)
    read_success(register(api, holder.token, holder.device))
    make_owner(api)
    second = Passkey.objects.filter(user=holder.user).latest("created_at")
    assert api.get("/passkeys", bearer=holder.token).json() == [
        {"id": str(passkey.id), "friendly_name": "Passkey", "created_at": rfc3339(passkey.created_at)}
        for passkey in (holder.passkey, second)
    ]


def test_used_passkey_has_time_of_last_use(api: Api) -> None:
    holder = make_owner(api)
    read_success(sign_in(api, holder.device))
    (shown,) = api.get("/passkeys", bearer=holder.token).json()
    used_at = Passkey.objects.get().last_used_at
    assert used_at is not None
    assert shown["last_used_at"] == rfc3339(used_at)


def test_unnamed_passkey_has_no_friendly_name(api: Api) -> None:
    holder = make_owner(api)
    Passkey.objects.update(friendly_name="")
    (shown,) = api.get("/passkeys", bearer=holder.token).json()
    assert set(shown) == {"id", "created_at"}


# Another name


@pytest.mark.parametrize("name", ["Work laptop", "x" * 120, "é" * 60])
def test_passkey_can_be_renamed(api: Api, name: str) -> None:
    holder = make_owner(api)
    make_factor(holder.user)  # asks for nothing here
    shown = read_success(api.patch(f"/passkeys/{holder.passkey.id}", {"friendly_name": name}, bearer=holder.token))
    passkey = Passkey.objects.get()
    assert shown == {"id": str(passkey.id), "friendly_name": name, "created_at": rfc3339(passkey.created_at)}
    assert passkey.friendly_name == name
    assert passkey.updated_at > holder.passkey.updated_at
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["log_type"]) == ("passkey_updated", "user")
    assert entry["traits"] == {"passkey_id": str(passkey.id)}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "friendly_name is required"),
        ({"friendly_name": ""}, "friendly_name is required"),
        ({"friendly_name": "x" * 121}, "friendly_name must be 120 characters or less"),
        ({"friendly_name": "é" * 60 + "x"}, "friendly_name must be 120 characters or less"),
    ],
)
def test_name_length_is_limited(api: Api, body: dict[str, Any], text: str) -> None:
    holder = make_owner(api)
    for passkey_id in (holder.passkey.id, uuid4()):
        assert_error(api.patch(f"/passkeys/{passkey_id}", body, bearer=holder.token), 400, "validation_failed", text)


def test_passkey_of_other_user_cannot_be_renamed(api: Api) -> None:
    holder, other = make_owner(api), make_owner(api)
    before = table_contents()
    for passkey_id in (other.passkey.id, uuid4(), "x"):
        assert_error(api.patch(f"/passkeys/{passkey_id}", {"friendly_name": "mine"}, bearer=holder.token), *NOT_FOUND)
    assert_error(api.patch("/passkeys/x", "no JSON", bearer=holder.token), *NOT_FOUND)
    response = api.patch(f"/passkeys/{holder.passkey.id}", "no JSON", bearer=holder.token)
    assert response.json()["error_code"] == "bad_json"
    assert_error(api.patch(f"/passkeys/{holder.passkey.id}", {"friendly_name": "mine"}), *NO_TOKEN)
    assert table_contents() == before


# Removal


def test_removal_keeps_sessions(api: Api) -> None:
    holder = make_owner(api)
    signed_in = read_success(sign_in(api, holder.device))
    response = api.delete(f"/passkeys/{holder.passkey.id}", bearer=holder.token)
    assert (response.status_code, response.content) == (204, b"")
    assert not Passkey.objects.exists()
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_id"]) == ("passkey_deleted", str(holder.user.id))
    assert entry["traits"] == {"passkey_id": str(holder.passkey.id)}
    read_success(refresh(api, signed_in["refresh_token"]))


def test_removal_requires_aal2_with_second_factor(api: Api) -> None:
    holder = make_owner(api)
    make_factor(holder.user)
    for passkey_id in (holder.passkey.id, "x"):
        assert_error(api.delete(f"/passkeys/{passkey_id}", bearer=holder.token), *NEEDS_AAL2)
    Session.objects.update(aal="aal2")
    assert api.delete(f"/passkeys/{holder.passkey.id}", bearer=holder.token).status_code == 204


def test_passkey_of_other_user_cannot_be_removed(api: Api) -> None:
    holder, other = make_owner(api), make_owner(api)
    before = table_contents()
    for passkey_id in (other.passkey.id, uuid4(), "x"):
        assert_error(api.delete(f"/passkeys/{passkey_id}", bearer=holder.token), *NOT_FOUND)
    assert_error(api.delete(f"/passkeys/{holder.passkey.id}"), *NO_TOKEN)
    assert table_contents() == before


# Administrators


def test_administrators_list_and_remove(api: Api) -> None:
    holder = make_owner(api)
    make_factor(holder.user)
    path = f"/admin/users/{holder.user.id}/passkeys"
    assert admin_requests.expect_success(api, "GET", path) == api.get("/passkeys", bearer=holder.token).json()
    response = admin_requests.ask(api, "DELETE", f"{path}/{holder.passkey.id}")
    assert (response.status_code, response.content) == (204, b"")
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_username"]) == ("passkey_deleted", "service_role")
    assert entry["traits"] == {"user_id": str(holder.user.id), "passkey_id": str(holder.passkey.id)}
    assert admin_requests.expect_success(api, "GET", path) == []


def test_administrators_address_passkey_by_its_user(api: Api) -> None:
    holder, other = make_owner(api), make_owner(api)
    path = f"/admin/users/{holder.user.id}/passkeys"
    before = table_contents()
    for passkey_id in (other.passkey.id, uuid4(), "x"):
        assert_error(admin_requests.ask(api, "DELETE", f"{path}/{passkey_id}"), *NOT_FOUND)
    for method, end in (("GET", ""), ("DELETE", f"/{holder.passkey.id}")):
        assert_error(
            admin_requests.ask(api, method, f"/admin/users/{uuid4()}/passkeys{end}"), *admin_requests.USER_NOT_FOUND
        )
        assert_error(
            admin_requests.ask(api, method, f"/admin/users/x/passkeys{end}"),
            404,
            "validation_failed",
            "user_id must be an UUID",
        )
        assert_error(api.request(method, f"{path}{end}"), *NO_TOKEN)
        assert_error(api.request(method, f"{path}{end}", bearer=holder.token), *admin_requests.NOT_ADMIN)
    assert table_contents() == before


def test_passkeys_are_deleted_with_user(api: Api) -> None:
    device = Authenticator()
    holder = make_owner(api, device=device)
    admin_requests.expect_success(api, "DELETE", f"/admin/users/{holder.user.id}", {"should_soft_delete": True})
    assert not Passkey.objects.exists()
