"""Changes of the email address and phone on the account pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from accounts.models import FailedAttempts, Identity, User
from authsvc.messaging import EmailType
from tests import factories
from tests.accounts.mfa.test_challenges import TWILIO
from tests.conftest import ApiResponse, ChangeConfig, Mailbox
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser, read_text
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

EMAIL, PHONE = "/account/email", "/account/phone"
NEW = "ada.new@example.com"


@pytest.fixture
def phones(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True}, sms={"provider": "twilio", "twilio": TWILIO})


def codes(mailbox: Mailbox) -> dict[str, str]:
    """Recipient → code."""
    return {mail.to: mail.variables["Token"] for mail in mailbox.emails}


def confirm(browser: PageBrowser, sent_to: str, code: str, page: str = EMAIL) -> ApiResponse:
    return browser.submit(page, confirm="1", sent_to=sent_to, code=code)


def test_the_present_address_is_no_change(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    inside.submit(EMAIL, email="ADA@example.com")
    page = inside.text(EMAIL)
    assert "Your account has this address or number already." in page
    assert "is changed" not in page
    assert not mailbox.emails


def test_both_addresses_confirm_a_change(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    session = Session.objects.get()
    assert inside.submit(EMAIL, email=NEW.upper()).headers["Location"] == EMAIL
    sent = codes(mailbox)
    assert set(sent) == {NEW, "ada@example.com"}
    page = inside.text(EMAIL)
    assert NEW in page
    assert "New email address" not in page  # one change at a time
    assert confirm(inside, NEW, "000000").status_code == 403
    assert confirm(inside, NEW, sent[NEW]).headers["Location"] == EMAIL
    assert User.objects.get().email == "ada@example.com"
    assert "sent to the other address too" in inside.text(EMAIL)
    assert confirm(inside, "ada@example.com", sent["ada@example.com"]).headers["Location"] == EMAIL
    assert "Your email address is changed." in inside.text(EMAIL)
    changed = User.objects.get()
    assert (changed.email, changed.email_change) == (NEW, "")
    assert Identity.objects.get().email == NEW
    # No further session is started, and this one stays.
    assert Session.objects.get() == session
    assert inside.is_in
    assert EmailType.EMAIL_CHANGED in [mail.type for mail in mailbox.emails]
    entries = [entry for entry in audit_payloads() if entry["action"] == "user_modified"]
    assert {entry["actor_id"] for entry in entries} == {str(user.id)}


def test_without_secure_change_the_new_address_confirms_alone(
    inside: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    inside.submit(EMAIL, email=NEW)
    assert inside.submit(EMAIL, confirm="1", code=codes(mailbox)[NEW]).headers["Location"] == EMAIL
    assert User.objects.get().email == NEW


def test_the_link_of_the_email_leads_back_to_the_page(
    inside: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    inside.submit(EMAIL, email=NEW)
    (mail,) = mailbox.emails
    link = urlsplit(mail.variables["ConfirmationURL"])
    assert link.path == "/account/confirm"
    page = f"{link.path}?{link.query}"
    assert NEW in inside.text(page)
    assert User.objects.get().email == "ada@example.com"
    assert inside.submit(page).headers["Location"] == EMAIL
    assert User.objects.get().email == NEW
    assert Session.objects.count() == 1
    assert inside.is_in


def test_a_pending_change_is_withdrawn(inside: PageBrowser, mailbox: Mailbox) -> None:
    inside.submit(EMAIL, email=NEW)
    assert OneTimeToken.objects.count() == 2
    assert inside.submit(EMAIL, withdraw="1").headers["Location"] == EMAIL
    assert User.objects.get().email_change == ""
    assert not OneTimeToken.objects.exists()
    page = inside.text(EMAIL)
    assert "The change is withdrawn." in page
    assert NEW not in page
    assert audit_payloads()[-1]["traits"] == {"withdrawn_change": "email"}
    assert inside.submit(EMAIL, withdraw="1").status_code == 303
    assert len(audit_payloads()) == 3  # nothing was left to withdraw


def test_an_expired_code_leaves_the_withdrawal(inside: PageBrowser, mailbox: Mailbox) -> None:
    inside.submit(EMAIL, email=NEW)
    OneTimeToken.objects.update(created_at="2020-01-01T00:00:00Z")
    assert "The code has expired." in inside.text(EMAIL)
    assert inside.submit(EMAIL, withdraw="1").status_code == 303


def test_a_code_of_another_account_is_refused(inside: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    """The newest code for an address belongs to another user, whose change must not be completed here."""
    auth_config(mailer={"secure_email_change_enabled": False}, smtp={"max_frequency": timedelta(microseconds=1)})
    inside.submit(EMAIL, email=NEW)
    first = codes(mailbox)[NEW]
    other = PageBrowser()
    factories.make_user(email="bob@example.com")
    other.sign_in("bob@example.com")
    other.submit(EMAIL, email=NEW)
    second = codes(mailbox)[NEW]
    if first != second:
        assert confirm(inside, NEW, second).status_code == 403
    assert not User.objects.filter(email=NEW).exists()
    assert confirm(other, NEW, second).headers["Location"] == EMAIL
    assert User.objects.get(email=NEW).id == User.objects.exclude(email="ada@example.com").get().id


def test_wrong_codes_count_as_failed_attempts(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    inside.submit(EMAIL, email=NEW)
    response = confirm(inside, NEW, "000000")
    assert "The link or code is wrong" in read_text(response)
    assert NEW in read_text(response)
    assert FailedAttempts.objects.get(user_id=user.id).attempts == 1


@pytest.mark.parametrize(
    ("email", "status", "message"),
    [
        ("taken@example.com", 422, "This email address is already in use."),
        ("not an address", 400, "Enter a valid email address."),
        ("", 400, "This field is required."),
    ],
)
def test_a_refused_address(inside: PageBrowser, email: str, status: int, message: str) -> None:
    factories.make_user(email="taken@example.com")
    response = inside.submit(EMAIL, email=email)
    assert (response.status_code, message in read_text(response)) == (status, True), read_text(response)
    assert User.objects.get(email="ada@example.com").email_change == ""


def test_the_proofs_that_settings_require_are_asked_for(
    inside: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_current": True, "update_requires_reauthentication": True})
    page = inside.text(EMAIL)
    assert 'name="current_password"' in page
    assert 'name="nonce"' in page
    assert inside.submit(EMAIL, email=NEW).status_code == 400
    sent = inside.submit(EMAIL, send_code="1", email=NEW, current_password="kept-out")
    assert (sent.status_code, NEW in read_text(sent), "kept-out" in read_text(sent)) == (200, True, False)
    (mail,) = mailbox.emails
    fields = {"email": NEW, "nonce": mail.variables["Token"]}
    assert inside.submit(EMAIL, **fields, current_password="wrong").status_code == 400
    assert User.objects.get().email_change == ""
    # The nonce is used up, also by a request that fails.
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    inside.submit(EMAIL, send_code="1")
    fields["nonce"] = mailbox.emails[-1].variables["Token"]
    assert inside.submit(EMAIL, **fields, current_password=factories.PASSWORD).headers["Location"] == EMAIL
    assert User.objects.get().email_change == NEW


@pytest.mark.usefixtures("phones")
def test_a_phone_is_changed_with_a_code(inside: PageBrowser, mailbox: Mailbox) -> None:
    assert inside.submit(PHONE, phone="+1 (555) 000-4567").headers["Location"] == PHONE
    (text,) = mailbox.sms
    assert text.to == "15550004567"
    assert "+15550004567" in inside.text(PHONE)
    wrong = confirm(inside, "15550004567", "000000", PHONE)
    assert wrong.status_code == 403
    assert confirm(inside, "15550004567", text.variables["Code"], PHONE).headers["Location"] == PHONE
    changed: Any = User.objects.get()
    assert (changed.phone, changed.phone_change) == ("15550004567", "")
    assert changed.phone_confirmed_at is not None
    assert Session.objects.count() == 1


@pytest.mark.usefixtures("phones")
def test_a_pending_phone_is_withdrawn(inside: PageBrowser, mailbox: Mailbox) -> None:
    inside.submit(PHONE, phone="+15550004567")
    assert inside.submit(PHONE, withdraw="1").headers["Location"] == PHONE
    assert User.objects.get().phone_change == ""
    assert not OneTimeToken.objects.exists()
    assert inside.submit(PHONE, phone="no phone").status_code == 400


def test_a_user_of_an_organisation_cannot_change_the_address(inside: PageBrowser) -> None:
    User.objects.update(is_sso_user=True)
    assert "Your organisation manages your account." in inside.text(EMAIL)
    assert inside.submit("/account/profile", to=EMAIL, email=NEW).status_code == 422
