"""POST /admin/users and POST /admin/users/{user_id}."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from authsvc.conf import Secret
from authsvc.security import encryption
from tests.accounts.administration import admin_requests
from tests.accounts.administration.admin_requests import EMAIL_EXISTS, PHONE_EXISTS, ask, can_sign_in, expect_success
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_session, make_user
from tests.observations import assert_error, audit_payloads, table_contents

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"
PHONE = "15551234567"
CHOSEN = "fc56ab41-2010-4870-a9b9-767c1dc573fb"
BCRYPT = "$2y$10$SXEz2HeT8PUIGQXo9yeUIem8KzNxgG0d7o/.eGj2rj8KbRgAuRVlq"
ARGON2ID = "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk"
ARGON2I = "$argon2i$v=19$m=16,t=2,p=1$bGJRWThNOHJJTVBSdHl2dQ$NfEnUOuUpb7F2fQkgFUG4g"
FIREBASE = (
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2"
    "g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+h"
    "fTw=="
)


def test_user_is_created(api: Api, mailbox: Mailbox) -> None:
    made = expect_success(api, "POST", "/admin/users", {"email": "Ann@Example.com", "password": "p4ss"})
    assert made["email"] == EMAIL
    assert (made["aud"], made["role"], made["phone"]) == ("authenticated", "authenticated", "")
    assert made["app_metadata"] == {"provider": "email", "providers": ["email"]}
    assert made["user_metadata"] == {}
    assert made["is_anonymous"] is False
    assert not {"email_confirmed_at", "confirmation_sent_at", "factors", "banned_until"} & set(made)
    [identity] = made["identities"]
    unproved = {"sub": made["id"], "email": EMAIL, "email_verified": False, "phone_verified": False}
    assert identity["identity_data"] == unproved
    assert (identity["id"], identity["user_id"], identity["provider"]) == (made["id"], made["id"], "email")
    assert identity["last_sign_in_at"] == made["created_at"]
    assert UUID(made["id"]).version == 4
    assert expect_success(api, "GET", f"/admin/users/{made['id']}") == made
    assert (mailbox.emails, mailbox.sms) == ([], [])
    (entry,) = audit_payloads()
    changes = entry["traits"].pop("changes")
    assert changes["email"] == {"old": None, "new": EMAIL}
    assert (changes["password"]["new"], changes["role"]["new"]) == ("[hidden]", made["role"])
    assert [entry] == [
        {
            "action": "user_signedup",
            "actor_id": "00000000-0000-0000-0000-000000000000",
            "actor_username": "service_role",
            "actor_role": "service_role",
            "actor_via_sso": False,
            "log_type": "team",
            "traits": {"user_id": made["id"], "user_email": EMAIL, "user_phone": "", "provider": "email"},
        }
    ]


def test_user_is_created_with_phone(api: Api) -> None:
    made = expect_success(
        api, "POST", "/admin/users", {"phone": "+1 23456789", "password": "test1", "phone_confirm": True}
    )
    assert (made["phone"], made["app_metadata"]) == ("123456789", {"provider": "phone", "providers": ["phone"]})
    assert [identity["provider"] for identity in made["identities"]] == ["phone"]
    assert made["identities"][0]["identity_data"]["phone"] == "123456789"
    assert made["phone_confirmed_at"] == made["confirmed_at"]


def test_password_signs_in(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    expect_success(api, "POST", "/admin/users", {"phone": "123456789", "password": "test1", "phone_confirm": True})
    assert can_sign_in(api, "test1", phone="123456789")


def test_user_is_created_with_email_and_phone(api: Api) -> None:
    made = expect_success(api, "POST", "/admin/users", {"email": EMAIL, "phone": PHONE, "password": "x"})
    # The order of rows of the same moment must not depend on their random ids.
    Identity.objects.filter(provider="email").update(id="ffffffff-ffff-4fff-bfff-ffffffffffff")
    assert made["app_metadata"] == {"provider": "email", "providers": ["email", "phone"]}
    listed = expect_success(api, "GET", "/admin/users")["users"]
    for shown in (made, expect_success(api, "GET", f"/admin/users/{made['id']}"), *listed):
        assert [identity["provider"] for identity in shown["identities"]] == ["email", "phone"]


@pytest.mark.parametrize("password", [None, ""])
def test_an_account_without_password_cannot_sign_in(api: Api, password: str | None) -> None:
    expect_success(api, "POST", "/admin/users", {"email": EMAIL, "password": password, "email_confirm": True})
    assert not can_sign_in(api, "", email=EMAIL)
    assert (User.objects.get().password or "").startswith("$argon2id$")


@pytest.mark.parametrize(
    ("stored", "password"),
    [(BCRYPT, "test"), (ARGON2ID, "test"), (ARGON2I, "test"), (FIREBASE, "mytestpassword")],
)
def test_password_hash_is_accepted(api: Api, stored: str, password: str) -> None:
    body = {"email": EMAIL, "password_hash": stored, "email_confirm": True}
    response = ask(api, "POST", "/admin/users", body)
    assert response.status_code == 200
    assert stored.encode() not in response.content
    assert User.objects.get().password == stored
    assert not can_sign_in(api, "test1", email=EMAIL)
    assert can_sign_in(api, password, email=EMAIL)


@pytest.mark.parametrize(
    "stored",
    [
        ARGON2ID.replace("argon2id", "argon2d"),
        ARGON2ID.replace("v=19", "v=16"),
        ARGON2ID.replace("p=2", "p=2,data=abc"),
        ARGON2ID.replace("p=2", "p=2,keyid=abc"),
        ARGON2ID.replace("p=2", "p=256"),
        ARGON2ID.replace("SFVpOWJ0eXhjRzVkdGN1RQ", ""),
        ARGON2ID + "A" * 1024,
        FIREBASE.replace("v=1,", "v=2,"),
        BCRYPT[:-1],
        "plain",
        '{"key_id":"k","alg":"aes-gcm-hkdf","data":"AAAA","nonce":"AAAAAAAAAAAAAAAA"}',
    ],
)
def test_unsupported_hash_is_rejected(api: Api, stored: str) -> None:
    before = table_contents()
    response = ask(api, "POST", "/admin/users", {"email": EMAIL, "password_hash": stored})
    assert_error(response, 400, "validation_failed", "Invalid password hash")
    assert table_contents() == before


def test_hash_is_encrypted_with_column_encryption(api: Api, auth_config: ChangeConfig) -> None:
    key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    auth_config(
        database={
            "encrypt": True,
            "encryption_key_id": "k",
            "encryption_key": Secret(key),
            "decryption_keys": {"k": Secret(key)},
        }
    )
    made = expect_success(api, "POST", "/admin/users", {"email": EMAIL, "password": "p4ss", "email_confirm": True})
    stored = User.objects.get(id=made["id"]).password or ""
    assert not encryption.needs_reencryption(stored)
    assert can_sign_in(api, "p4ss", email=EMAIL)


@pytest.mark.parametrize(
    "chosen", [CHOSEN, CHOSEN.upper(), CHOSEN.replace("-", ""), f"{{{CHOSEN}}}", f"urn:uuid:{CHOSEN}"]
)
def test_id_can_be_chosen(api: Api, chosen: str) -> None:
    assert expect_success(api, "POST", "/admin/users", {"id": chosen, "email": EMAIL})["id"] == CHOSEN


def test_used_id_is_rejected(api: Api) -> None:
    expect_success(api, "POST", "/admin/users", {"id": CHOSEN, "email": EMAIL})
    before = table_contents()
    response = ask(api, "POST", "/admin/users", {"id": CHOSEN, "email": "bob@example.com"})
    assert_error(response, 422, "user_already_exists", "A user with this id has already been registered")
    assert table_contents() == before


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"password": "x"}, "Cannot create a user without either an email or phone"),
        ({"email": "", "phone": ""}, "Cannot create a user without either an email or phone"),
        (None, "Cannot create a user without either an email or phone"),
        ({"email": "xx"}, "Unable to validate email address: invalid format"),
        ({"email": f"{'a' * 250}@example.com"}, "An email address is too long"),
        ({"phone": "0123"}, "Invalid phone number format (E.164 required)"),
        (
            {"email": EMAIL, "password": "x", "password_hash": BCRYPT},
            "Only a password or a password hash should be provided",
        ),
        (
            {"email": EMAIL, "password": "", "password_hash": BCRYPT},
            "Only a password or a password hash should be provided",
        ),
        ({"email": EMAIL, "password": "ä" * 37}, "Password cannot be longer than 72 characters"),
        ({"email": EMAIL, "id": "bad_uuid_format"}, "ID must conform to the uuid v4 format"),
        ({"email": EMAIL, "id": "00000000-0000-0000-0000-000000000000"}, "ID cannot be a nil uuid"),
        ({"email": EMAIL, "ban_duration": "never"}, 'invalid format for ban duration: time: invalid duration "never"'),
        ({"email": EMAIL, "role": "r" * 256}, "The role is too long"),
        ({"email": EMAIL, "aud": "a" * 256}, "The audience is too long"),
        # The first error is returned.
        ({"email": "xx", "phone": "0", "ban_duration": "x"}, "Unable to validate email address: invalid format"),
        ({"email": EMAIL, "id": "x", "ban_duration": "x"}, "ID must conform to the uuid v4 format"),
    ],
)
def test_an_invalid_request_creates_no_user(api: Api, body: Any, text: str) -> None:
    before = table_contents()
    assert_error(
        api.request("POST", "/admin/users", b"null" if body is None else body, bearer=admin_requests.token()),
        400,
        "validation_failed",
        text,
    )
    assert table_contents() == before


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", {"email": 1}, {"email": EMAIL, "email_confirm": "yes"}, {"email": EMAIL, "app_metadata": []}],
)
def test_body_of_other_type_is_rejected(api: Api, body: Any) -> None:
    assert ask(api, "POST", "/admin/users", body).json()["error_code"] == "bad_json"


def test_unknown_keys_are_ignored(api: Api) -> None:
    made = expect_success(api, "POST", "/admin/users", {"email": EMAIL, "is_super_admin": True, "is_sso_user": True})
    assert not User.objects.get(id=made["id"]).is_sso_user


@pytest.mark.parametrize("audience", ["authenticated", "other"])
def test_email_is_unique_across_audiences(api: Api, audience: str) -> None:
    make_user(email=EMAIL, phone=PHONE, audience=audience)
    assert_error(ask(api, "POST", "/admin/users", {"email": "ANN@example.com"}), *EMAIL_EXISTS)
    assert_error(ask(api, "POST", "/admin/users", {"phone": f"+{PHONE}"}), *PHONE_EXISTS)
    assert_error(ask(api, "POST", "/admin/users", {"email": EMAIL, "phone": "0"}), *EMAIL_EXISTS)


def test_email_of_identity_is_taken(api: Api) -> None:
    user = make_user()
    at = timezone.now()
    identity = {"sub": "7", "email": EMAIL}
    Identity.objects.create(
        provider="google", provider_id="7", user=user, identity_data=identity, created_at=at, updated_at=at
    )
    assert_error(ask(api, "POST", "/admin/users", {"email": EMAIL}), *EMAIL_EXISTS)
    Identity.objects.filter(provider="google").update(provider=f"sso:{uuid4()}")
    assert expect_success(api, "POST", "/admin/users", {"email": EMAIL})["email"] == EMAIL


def test_phone_of_sso_user_violates_unique_index(api: Api) -> None:
    make_user(phone=PHONE, is_sso_user=True)
    before = table_contents()
    assert_error(ask(api, "POST", "/admin/users", {"phone": PHONE}), *PHONE_EXISTS)
    assert table_contents() == before


def test_disabled_sign_ups_do_not_apply_to_administrators(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(signup={"disabled": True, "email_enabled": False, "phone_enabled": False})
    assert expect_success(api, "POST", "/admin/users", {"email": EMAIL, "phone": PHONE})["email"] == EMAIL


def test_email_and_phone_can_be_confirmed(api: Api, mailbox: Mailbox) -> None:
    body = {
        "email": EMAIL,
        "phone": PHONE,
        "email_confirm": True,
        "phone_confirm": True,
        "user_metadata": {"name": "Yoda"},
    }
    made = expect_success(api, "POST", "/admin/users", body)
    assert made["email_confirmed_at"] == made["phone_confirmed_at"] == made["created_at"]
    assert made["user_metadata"] == {"name": "Yoda", "email_verified": True}
    assert {identity["identity_data"]["email_verified"] for identity in made["identities"]} == {False}
    assert mailbox.emails == []


def test_user_metadata_is_stored_unchanged(api: Api) -> None:
    metadata = {"a": {"b": [1, 2.5, None]}, "nothing": None, "email_verified": "perhaps"}
    made = expect_success(api, "POST", "/admin/users", {"email": EMAIL, "user_metadata": metadata})
    assert made["user_metadata"] == metadata


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ({"provider": "x", "roles": ["a"]}, {"provider": "x", "providers": ["email"], "roles": ["a"]}),
        ({"providers": None, "plan": {"a": None}}, {"provider": "email", "plan": {"a": None}}),
        ({}, {"provider": "email", "providers": ["email"]}),
        (None, {"provider": "email", "providers": ["email"]}),
    ],
)
def test_app_metadata_overrides_defaults(api: Api, metadata: Any, kept: Any) -> None:
    assert (
        expect_success(api, "POST", "/admin/users", {"email": EMAIL, "app_metadata": metadata})["app_metadata"] == kept
    )


@pytest.mark.parametrize(
    ("role", "kept"), [(" editor ", "editor"), ("", "authenticated"), ("  ", "authenticated"), (None, "authenticated")]
)
def test_role_is_stored(api: Api, role: str | None, kept: str) -> None:
    assert expect_success(api, "POST", "/admin/users", {"email": EMAIL, "role": role})["role"] == kept


def test_audience_of_body_precedes_audience_of_request(api: Api) -> None:
    headers = {"X-JWT-AUD": "second"}
    assert (
        expect_success(api, "POST", "/admin/users", {"email": EMAIL, "aud": "first"}, headers=headers)["aud"] == "first"
    )
    assert expect_success(api, "POST", "/admin/users", {"phone": PHONE}, headers=headers)["aud"] == "second"


def test_user_can_be_created_banned(api: Api) -> None:
    before = timezone.now()
    body = {"email": EMAIL, "password": PASSWORD, "email_confirm": True, "ban_duration": "24h"}
    made = expect_success(api, "POST", "/admin/users", body)
    banned_until = User.objects.get(id=made["id"]).banned_until
    assert banned_until is not None
    assert before + timedelta(hours=24) <= banned_until <= timezone.now() + timedelta(hours=24)
    assert not can_sign_in(api, PASSWORD, email=EMAIL)


def test_audit_entry_names_the_administrator(api: Api) -> None:
    operator = make_session(make_user(email="op@example.com", role="svc_admin"))
    made = api.post("/admin/users", {"email": EMAIL}, bearer=operator.access_token).json()
    entry = audit_payloads()[-1]
    assert (entry["actor_username"], entry["actor_id"]) == ("op@example.com", str(operator.user.id))
    assert entry["actor_role"] == "svc_admin"
    assert entry["traits"]["user_id"] == made["id"]


# POST /admin/users/{user_id}


def test_user_is_created_with_id_of_path(api: Api) -> None:
    body = {"email": EMAIL, "password": PASSWORD, "ban_duration": "24h", "email_confirm": True}
    made = expect_success(api, "POST", f"/admin/users/{CHOSEN}", body)
    assert (made["id"], made["identities"][0]["id"], "banned_until" in made) == (CHOSEN, CHOSEN, True)
    assert audit_payloads()[0]["traits"]["user_id"] == CHOSEN
    before = table_contents()
    # Checked before other errors.
    response = ask(api, "POST", f"/admin/users/{CHOSEN}", {"email": "xx"})
    assert_error(response, 422, "user_already_exists", "A user with this id has already been registered")
    assert table_contents() == before


def test_the_id_of_a_soft_deleted_user_stays_taken(api: Api) -> None:
    user = make_user(deleted_at=timezone.now())
    response = ask(api, "POST", f"/admin/users/{user.id}", {"email": EMAIL})
    assert_error(response, 422, "user_already_exists", "A user with this id has already been registered")


@pytest.mark.parametrize("id", [None, "", CHOSEN, CHOSEN.upper(), CHOSEN.replace("-", "")])
def test_the_body_may_repeat_the_id(api: Api, id: str | None) -> None:
    assert expect_success(api, "POST", f"/admin/users/{CHOSEN}", {"email": EMAIL, "id": id})["id"] == CHOSEN


@pytest.mark.parametrize("id", ["6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11", "x"])
def test_different_id_in_body_is_rejected(api: Api, id: str) -> None:
    response = ask(api, "POST", f"/admin/users/{CHOSEN}", {"email": EMAIL, "id": id})
    assert_error(response, 400, "validation_failed", "ID in the body must match the ID in the path")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("xyz", 404, "user_id must be an UUID"),
        ("%7B%7D", 404, "user_id must be an UUID"),
        ("fc56ab4120104870a9b9-767c1dc573fb", 404, "user_id must be an UUID"),
        ("00000000-0000-0000-0000-000000000000", 400, "ID cannot be a nil uuid"),
    ],
)
def test_malformed_id_in_path_is_rejected(api: Api, path: str, status: int, text: str) -> None:
    assert_error(ask(api, "POST", f"/admin/users/{path}", {"email": EMAIL}), status, "validation_failed", text)


def test_errors_equal_those_without_id_in_path(api: Api) -> None:
    response = ask(api, "POST", f"/admin/users/{CHOSEN}", {"password": "x"})
    assert_error(response, 400, "validation_failed", "Cannot create a user without either an email or phone")
    assert ask(api, "POST", f"/admin/users/{CHOSEN}", b"").json()["error_code"] == "bad_json"
