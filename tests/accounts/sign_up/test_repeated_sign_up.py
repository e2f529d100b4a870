"""POST /signup for an address that has an account: repeated sign-ups and fabricated users."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from accounts.models import Identity, User
from accounts.passwords import hashing
from tests.accounts.sign_up.sign_up_requests import EMAIL, PHONE, SIGN_UP, USER_KEYS
from tests.conftest import Api, Mailbox
from tests.factories import PASSWORD, make_factor, make_user
from tests.observations import audit_payloads, audit_trail, backdate_rate_limits, table_contents
from tokens.models import Session

pytestmark = pytest.mark.django_db

# An unconfirmed address


def test_a_repeated_sign_up_replaces_data_and_email(api: Api, mailbox: Mailbox) -> None:
    first = api.post("/signup", {**SIGN_UP, "data": {"n": 1, "x": 1}}).json()
    backdate_rate_limits(timedelta(minutes=15, seconds=1))
    response = api.post("/signup", {**SIGN_UP, "data": {"n": 2}})

    second = response.json()
    assert list(second) == USER_KEYS
    assert second["id"] == first["id"]
    assert second["created_at"] == first["created_at"]
    assert second["confirmation_sent_at"] > first["confirmation_sent_at"]
    assert second["user_metadata"]["n"] == 2
    assert "x" not in second["user_metadata"]
    assert second["identities"][0]["identity_data"] == second["user_metadata"]
    assert second["identities"][0]["identity_id"] == first["identities"][0]["identity_id"]
    user = User.objects.get()
    assert hashing.verify_password(PASSWORD, user.password)
    assert user.raw_user_meta_data == second["user_metadata"]
    assert Identity.objects.get().identity_data == second["user_metadata"]
    assert audit_trail() == [("user_confirmation_requested", {"provider": "email"})] * 2
    old, new = mailbox.emails
    former = api.get(f"/verify?type=signup&token={old.variables['TokenHash']}")
    assert "error_code=otp_expired" in former.headers["Location"]
    body = {"type": "signup", "email": EMAIL, "token": old.variables["Token"]}
    assert api.post("/verify", body).status_code == (403 if old.variables["Token"] != new.variables["Token"] else 200)
    assert api.post("/verify", {"type": "signup", "token_hash": new.variables["TokenHash"]}).status_code == 200
    assert api.post("/token?grant_type=password", SIGN_UP).status_code == 200


def test_a_sign_up_reveals_no_invitation(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, password="", confirmed=False, data={"salary": 7}, invited_at=timezone.now())
    before = {name: content for name, content in table_contents().items() if name != "audit_log_entries"}
    shown = api.post("/signup", {**SIGN_UP, "data": {"mine": 1}}).json()
    assert shown["id"] != str(user.id)
    assert list(shown) == USER_KEYS
    assert shown["user_metadata"]["mine"] == 1
    assert mailbox.emails == []
    assert {name: content for name, content in table_contents().items() if name != "audit_log_entries"} == before


def test_a_repeated_sign_up_keeps_the_audience_and_the_role(api: Api) -> None:
    make_user(email=EMAIL, confirmed=False, role="member")
    shown = api.post("/signup", SIGN_UP).json()
    assert (shown["aud"], shown["role"]) == ("authenticated", "member")


def test_an_address_of_another_audience_is_a_duplicate(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, audience="staff")
    shown = api.post("/signup", SIGN_UP).json()
    assert shown["id"] != str(user.id)
    assert (shown["aud"], shown["role"], len(shown["identities"])) == ("authenticated", "authenticated", 1)
    assert audit_trail() == [("user_repeated_signup", {"provider": "email"})]
    assert mailbox.emails == []


def test_address_gets_no_session_when_only_phone_is_confirmed(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email=EMAIL, confirmed=False, phone=PHONE, phone_confirmed_at=timezone.now())
    response = api.post("/signup", SIGN_UP)
    assert response.json()["id"] != str(user.id)
    assert "access_token" not in response.json()
    assert len(mailbox.emails) == 1
    assert not Session.objects.exists()
    user.refresh_from_db()
    assert (user.email, user.email_change, user.phone) == (None, EMAIL, PHONE)


def test_an_sso_account_does_not_own_its_address(api: Api) -> None:
    sso = make_user(email=EMAIL, is_sso_user=True)
    shown = api.post("/signup", SIGN_UP).json()
    assert shown["id"] != str(sso.id)
    assert len(shown["identities"]) == 1
    assert User.objects.count() == 2


# A confirmed address


def test_a_confirmed_address_gets_a_fabricated_user(api: Api, mailbox: Mailbox) -> None:
    user = make_user(
        email=EMAIL,
        data={"secret": 1},
        phone=PHONE,
        phone_confirmed_at=timezone.now(),
        invited_at=timezone.now(),
        recovery_sent_at=timezone.now(),
        email_change="new@example.com",
        email_change_sent_at=timezone.now(),
        last_sign_in_at=timezone.now(),
        banned_until=timezone.now() + timedelta(days=1),
        role="svc_admin",
        raw_app_meta_data={"provider": "google", "providers": ["google"], "plan": "gold"},
    )
    make_factor(user)
    before = {name: content for name, content in table_contents().items() if name != "audit_log_entries"}
    response = api.post("/signup", {"email": "User@Example.com", "password": "another password", "data": {"a": 1}})

    assert response.status_code == 200
    shown = response.json()
    assert list(shown) == USER_KEYS
    moment = shown["created_at"]
    known = {"sub": shown["id"], "email": EMAIL, "email_verified": False, "phone_verified": False, "a": 1}
    assert shown == {
        "id": shown["id"],
        "aud": "authenticated",
        "role": "authenticated",
        "email": EMAIL,
        "phone": "",
        "confirmation_sent_at": moment,
        "app_metadata": {"provider": "email", "providers": ["email"]},
        "user_metadata": known,
        "identities": [
            {
                "identity_id": shown["identities"][0]["identity_id"],
                "id": shown["id"],
                "user_id": shown["id"],
                "identity_data": known,
                "provider": "email",
                "last_sign_in_at": moment,
                "created_at": moment,
                "updated_at": moment,
                "email": EMAIL,
            }
        ],
        "created_at": moment,
        "updated_at": moment,
        "is_anonymous": False,
    }
    assert UUID(shown["id"]).version == 4
    assert shown["id"] != str(user.id)
    assert {name: content for name, content in table_contents().items() if name != "audit_log_entries"} == before
    assert audit_payloads() == [
        {
            "action": "user_repeated_signup",
            "actor_id": str(user.id),
            "actor_username": PHONE,
            "actor_via_sso": False,
            "log_type": "user",
            "traits": {"provider": "email"},
        }
    ]
    assert mailbox.emails == []


def test_fabricated_users_have_different_ids(api: Api) -> None:
    make_user(email=EMAIL)
    ids = set()
    for _ in range(3):
        ids.add(api.post("/signup", SIGN_UP).json()["id"])
        backdate_rate_limits(timedelta(hours=1))
    assert len(ids) == 3


def test_a_fabricated_user_and_a_new_account_differ_only_in_the_documented_members(api: Api) -> None:
    make_user(email=EMAIL)
    new = api.post("/signup", {"email": "new@example.com", "password": PASSWORD})
    known = api.post("/signup", SIGN_UP)
    assert list(new.json()) == list(known.json())
    differing = {name for name in USER_KEYS if type(new.json()[name]) is not type(known.json()[name])}
    assert differing == set()
    assert {**new.headers} == {**known.headers}
    assert new.status_code == known.status_code
