"""The copy of the user's data, and the deletion of the account."""

from __future__ import annotations

import html
import json
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import OperatorNote, User
from authsvc import audit
from authsvc.audit import Administrator
from authsvc.caller import Caller
from authsvc.models import AuditLogEntry
from tests import factories
from tests.accounts.mfa.factor_requests import SECRET
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

DATA, DELETION = "/account/data", "/account/deletion"


def age_session(*, minutes: int = 11) -> None:
    AmrClaim.objects.update(updated_at=timezone.now() - timedelta(minutes=minutes))


def delete(browser: PageBrowser, address: str = "ada@example.com", **fields: str) -> ApiResponse:
    return browser.submit(DELETION, address=address, **fields)


# The copy


def test_the_copy_contains_the_data_without_secrets(inside: PageBrowser, user: User) -> None:
    stranger = factories.make_user(email="stranger@example.com")
    factories.make_session(stranger)
    factories.make_factor(user, secret=SECRET, status="unverified")
    OperatorNote.objects.create(user=user, author="op@example.com", text="internal remark", created_at=timezone.now())
    operator = Administrator(role="svc_admin", address="op@example.com", reason="secret reason")
    audit.record(
        audit.Action.MODIFIED,
        actor=operator,
        caller=Caller(address="203.0.113.99"),
        at=timezone.now(),
        traits={"user_id": str(user.id)},
    )
    response = inside.submit(DATA)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="account-')
    assert response.headers["Cache-Control"] == "no-store"
    document = response.json()
    assert document["user_id"] == str(user.id)
    held = document["held"]
    assert [row["email"] for row in held["users"]] == ["ada@example.com"]
    assert [row["id"] for row in held["sessions"]] == [str(Session.objects.get(user=user).id)]
    assert {entry["payload"]["action"] for entry in held["audit_log_entries"]} == {
        "login", "user_modified", "personal_data_exported",
    }  # fmt: skip
    user.refresh_from_db()
    session = Session.objects.get(user=user)
    text = response.content.decode()
    secrets = (user.password, session.refresh_token_hmac_key, SECRET, inside.cookie)
    others = ("internal remark", "op@example.com", "203.0.113.99", "secret reason", "stranger@example.com")
    for value in (*secrets, *others):
        assert value
        assert str(value) not in text
    assert audit_payloads()[-1]["action"] == "personal_data_exported"


def test_copies_are_limited_per_user(inside: PageBrowser) -> None:
    assert [inside.submit(DATA).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = inside.submit(DATA)
    assert int(refused.headers["Retry-After"]) > 3600
    other = PageBrowser()
    factories.make_user(email="bob@example.com")
    other.sign_in("bob@example.com")
    assert other.submit(DATA).status_code == 200


# Deletion


def test_a_user_deletes_the_account(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    other = factories.make_user()
    elsewhere = factories.make_session(user)
    assert DELETION in inside.text(DATA)
    assert "ada@example.com" in inside.text(DELETION)
    response = delete(inside, "  ADA@example.com ")
    assert response.headers["Location"] == "/account/deleted"
    assert "Goodbye" in inside.text("/account/deleted")
    assert list(User.objects.all()) == [other]
    assert not Session.objects.exists()
    assert not inside.is_in
    assert Api().get("/user", bearer=elsewhere.access_token).status_code == 403
    entry = audit_payloads()[-1]
    assert (entry["action"], entry["actor_id"]) == ("user_deleted", str(user.id))
    assert entry["traits"] == {
        "user_id": str(user.id),
        "user_email": "ada@example.com",
        "user_phone": "",
        "is_soft": False,
    }
    assert PageBrowser().sign_in("ada@example.com").status_code == 400


@pytest.mark.parametrize("address", ["", "bob@example.com", "ada@example"])
def test_the_address_is_typed_to_confirm(inside: PageBrowser, address: str) -> None:
    assert delete(inside, address).status_code == 400
    assert User.objects.exists()


def test_an_older_session_needs_the_password(inside: PageBrowser, user: User) -> None:
    age_session()
    assert 'name="current_password"' in inside.text(DELETION)
    assert delete(inside).status_code == 400
    wrong = delete(inside, current_password="wrong")
    assert (wrong.status_code, "The current password is wrong." in html.unescape(wrong.content.decode())) == (400, True)
    assert AuditLogEntry.objects.filter(payload__action="user_change_refused").count() == 1
    assert User.objects.filter(id=user.id).exists()
    assert delete(inside, current_password=PASSWORD).headers["Location"] == "/account/deleted"


def test_without_a_password_an_older_session_needs_a_code(inside: PageBrowser, mailbox: Mailbox) -> None:
    User.objects.update(password="")
    age_session()
    assert delete(inside, nonce="000000").status_code == 422
    assert inside.submit(DELETION, send_code="1").status_code == 200
    (mail,) = mailbox.emails
    assert delete(inside, nonce=mail.variables["Token"]).headers["Location"] == "/account/deleted"
    assert not User.objects.exists()


def test_without_password_and_address_the_user_signs_in_again(inside: PageBrowser, user: User) -> None:
    User.objects.update(password="", email=None, email_confirmed_at=None)
    age_session()
    assert "sign in again first" in inside.text(DELETION)
    refused = inside.submit("/account/profile", to=DELETION, address=str(user.id))
    assert refused.status_code == 400
    assert User.objects.exists()


def test_a_second_factor_is_a_recent_proof(inside: PageBrowser, user: User) -> None:
    age_session()
    AmrClaim.objects.create(
        session=Session.objects.get(),
        authentication_method="totp",
        created_at=timezone.now(),
        updated_at=timezone.now(),
    )
    assert 'name="current_password"' not in inside.text(DELETION)


def test_disabled_deletion(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(pages={"account_deletion_enabled": False})
    assert DELETION not in inside.text(DATA)
    assert inside.submit(DATA, to=DELETION, address="ada@example.com").status_code == 404
    assert json.dumps(list(User.objects.values_list("email", flat=True))) == '["ada@example.com"]'


def test_the_confirmation_of_a_new_address_is_no_recent_sign_in(inside: PageBrowser) -> None:
    AmrClaim.objects.update(authentication_method="email_change")
    assert 'name="current_password"' in inside.text(DELETION)
    assert delete(inside).status_code == 400
    assert User.objects.exists()


def test_an_operator_is_deleted_by_another_one(inside: PageBrowser) -> None:
    User.objects.update(role="service_role")
    assert DELETION not in inside.text(DATA)
    refused = inside.submit("/account/profile", to=DELETION, address="ada@example.com")
    assert (refused.status_code, "Operators cannot delete their own account" in refused.content.decode()) == (422, True)
    assert User.objects.exists()
