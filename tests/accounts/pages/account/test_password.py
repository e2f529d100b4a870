"""The password page."""

from __future__ import annotations

import html
import json

import pytest

from accounts.models import FailedAttempts, User
from authsvc.messaging import EmailType
from authsvc.models import AuditLogEntry
from tests.conftest import ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser
from tokens.models import AmrClaim, Session

pytestmark = pytest.mark.django_db

PAGE = "/account/password"
NEW = "a quite different phrase 7"


def change(browser: PageBrowser, current: str = PASSWORD, new: str = NEW, **fields: str) -> ApiResponse:
    return browser.submit(PAGE, current_password=current, password=new, **fields)


def test_a_change_ends_other_sessions_and_is_notified(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    other = PageBrowser()
    other.sign_in("ada@example.com")
    assert change(inside).headers["Location"] == PAGE
    assert "Your password is changed." in inside.text(PAGE)
    assert Session.objects.count() == 1
    assert inside.is_in
    assert not other.is_in
    assert PageBrowser().sign_in("ada@example.com").status_code == 400
    assert PageBrowser().sign_in("ada@example.com", NEW).status_code == 303
    entries = [entry for entry in audit_payloads() if entry["action"] == "user_updated_password"]
    assert [entry["actor_id"] for entry in entries] == [str(user.id)]
    assert NEW not in json.dumps(audit_payloads())
    assert [mail.type for mail in mailbox.emails] == [EmailType.PASSWORD_CHANGED]


@pytest.mark.parametrize(
    ("current", "new", "status", "message"),
    [
        ("wrong", NEW, 400, "The current password is wrong."),
        ("", NEW, 400, "This field is required."),
        (PASSWORD, "abc", 422, "The password needs at least 6 characters."),
        (PASSWORD, PASSWORD, 422, "The new password is the same as the present one."),
    ],
)
def test_a_refused_change(inside: PageBrowser, current: str, new: str, status: int, message: str) -> None:
    response = change(inside, current, new)
    text = html.unescape(response.content.decode())
    assert (response.status_code, message in text) == (status, True), text
    assert NEW not in text
    assert PageBrowser().sign_in("ada@example.com").status_code == 303


def test_wrong_current_passwords_count_as_failed_attempts(inside: PageBrowser, user: User) -> None:
    change(inside, "wrong")
    assert FailedAttempts.objects.get(user_id=user.id).attempts == 1
    assert AuditLogEntry.objects.filter(payload__action="user_change_refused").count() == 1


def test_the_code_of_a_reauthentication_is_asked_for_where_required(
    inside: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True})
    assert change(inside).status_code == 400
    sent = inside.submit(PAGE, send_code="1", password="kept-out-of-the-page")
    assert (sent.status_code, "kept-out" in sent.content.decode()) == (200, False)
    (mail,) = mailbox.emails
    assert change(inside, nonce="000000").status_code == 422
    assert change(inside, nonce=mail.variables["Token"]).headers["Location"] == PAGE


def test_no_code_is_sent_where_none_is_required(inside: PageBrowser, mailbox: Mailbox) -> None:
    assert inside.submit(PAGE, send_code="1").status_code == 200
    assert mailbox.emails == []


def test_an_account_without_a_password_gets_one(inside: PageBrowser) -> None:
    User.objects.update(password="")
    page = inside.text(PAGE)
    assert "Set password" in page
    assert 'name="current_password"' not in page
    assert inside.submit(PAGE, password=NEW).headers["Location"] == PAGE
    assert PageBrowser().sign_in("ada@example.com", NEW).status_code == 303


def test_a_user_who_signed_in_with_a_link_need_not_know_the_password(inside: PageBrowser) -> None:
    AmrClaim.objects.update(authentication_method="otp")
    assert 'name="current_password"' not in inside.text(PAGE)
    assert inside.submit(PAGE, password=NEW).headers["Location"] == PAGE


def test_a_user_of_an_organisation_has_no_password(inside: PageBrowser) -> None:
    User.objects.update(is_sso_user=True)
    assert "Your organisation manages your account." in inside.text(PAGE)
    assert inside.submit("/account/profile", to=PAGE, current_password=PASSWORD, password=NEW).status_code == 422


def test_a_copy_of_the_cookie_ends_with_a_new_password(inside: PageBrowser) -> None:
    copy = PageBrowser()
    copy.cookie = inside.cookie
    assert copy.is_in
    assert change(inside).headers["Location"] == PAGE
    assert inside.is_in
    assert not copy.is_in
