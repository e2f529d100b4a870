"""Sign-up, sign-in by link or code, recovery, and the page of the links of emails."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus, urlsplit

import pytest
from django.utils import timezone

from accounts.models import User
from authsvc.conf import Secret, Vonage
from tests import factories
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tests.page_browser import ACCOUNT, SIGN_IN, PageBrowser, read_location
from tokens.jwt import access_tokens
from tokens.models import AmrClaim, OneTimeToken, Session

pytestmark = pytest.mark.django_db

SIGN_UP, CODE, RECOVER, CONFIRM = "/account/sign-up", "/account/code", "/account/recover", "/account/confirm"
NEW_PASSWORD = "/account/new-password"
DEAD = "The link or code is wrong, has expired or was used already."


def link(mailbox: Mailbox) -> str:
    """Path and query of the link in the newest email."""
    url = mailbox.emails[-1].variables["ConfirmationURL"]
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}" == "http://127.0.0.1:8081"
    return f"{parts.path}?{parts.query}"


def code(mailbox: Mailbox) -> str:
    return str(mailbox.emails[-1].variables["Token"])


def without_token(response: ApiResponse) -> str:
    return re.sub(r'csrfmiddlewaretoken" value="[^"]+', "", response.content.decode())


@pytest.mark.parametrize("by", ["link", "link in another browser", "code"])
def test_a_sign_up_is_confirmed(browser: PageBrowser, mailbox: Mailbox, by: str) -> None:
    response = browser.submit(f"{SIGN_UP}?next=/oauth/device", name="New@Example.com", password=PASSWORD)
    assert read_location(response) == (303, f"{CONFIRM}?next=%2Foauth%2Fdevice")
    assert "New@Example.com" in browser.text(response.headers["Location"])
    assert not Session.objects.exists()
    if by == "code":
        # People copy codes with spaces.
        spaced = f" {code(mailbox)[:3]} {code(mailbox)[3:]} "
        response = browser.submit(response.headers["Location"], code=spaced)
    else:
        browser = browser if by == "link" else PageBrowser()
        page = browser.text(link(mailbox))
        assert "new@example.com" in page
        assert not Session.objects.exists()  # a scanner that opens the link does not redeem it
        response = browser.submit(link(mailbox), to=CONFIRM)
    assert read_location(response) == (303, "/oauth/device")
    assert browser.is_in
    user = User.objects.get()
    assert user.email_confirmed_at is not None
    assert Session.objects.get().user_id == user.id
    # The password of the sign-up holds.
    assert PageBrowser().sign_in("new@example.com").status_code == 303


def test_a_link_works_once(browser: PageBrowser, mailbox: Mailbox) -> None:
    browser.submit(SIGN_UP, name="new@example.com", password=PASSWORD)
    other = PageBrowser()
    page = other.text(link(mailbox))
    token = re.search(r'csrfmiddlewaretoken" value="([^"]+)', page)
    browser.submit(link(mailbox), to=CONFIRM)
    assert token
    secret = re.search("token=([0-9a-f]+)", link(mailbox))
    assert secret
    form = {"csrfmiddlewaretoken": token[1], "type": "signup", "token": secret[1]}
    response: Any = other.client.post(CONFIRM, form)
    assert response.status_code == 403
    assert DEAD in response.content.decode()
    again = other.get(link(mailbox))
    assert (again.status_code, DEAD in again.content.decode()) == (403, True)
    assert not other.is_in


def test_the_page_of_a_link(browser: PageBrowser, mailbox: Mailbox, user: User) -> None:
    browser.submit(RECOVER, email="ada@example.com")
    page = browser.get(link(mailbox))
    # The URL has the token, so neither another site nor the action of the form gets it.
    assert page.headers["Referrer-Policy"] == "strict-origin"
    assert page.headers["Cache-Control"] == "no-store"
    assert 'action="/account/confirm"' in page.content.decode()
    assert "ada@example.com" in page.content.decode()
    # Without the token of the form a link cannot be redeemed by another site.
    secret = re.search("token=([0-9a-f]+)", link(mailbox))
    assert secret
    response: Any = PageBrowser().client.post(CONFIRM, {"type": "recovery", "token": secret[1]})
    assert response.status_code == 403
    assert OneTimeToken.objects.exists()


@pytest.mark.parametrize("query", ["type=signup&token=abc", "type=&token=abc", "type=x&token=", "token=%00"])
def test_a_wrong_link_shows_what_to_do(browser: PageBrowser, query: str) -> None:
    response = browser.get(f"{CONFIRM}?{query}")
    assert response.status_code in (400, 403)
    assert "This link does not work" in response.content.decode()
    assert "The link or code is wrong" in response.content.decode()


def test_a_link_of_another_account_says_so(inside: PageBrowser, mailbox: Mailbox) -> None:
    factories.make_user(email="eve@example.com")
    PageBrowser().submit(CODE, name="eve@example.com")
    page = inside.text(link(mailbox))
    assert "eve@example.com" in page
    assert "signed out if you continue" in page
    first = Session.objects.get()
    assert read_location(inside.submit(link(mailbox), to=CONFIRM)) == (303, ACCOUNT)
    assert not Session.objects.filter(id=first.id).exists()


def test_a_duplicate_sign_up_looks_like_a_new_one(user: User, mailbox: Mailbox) -> None:
    pages = []
    for address in ("ada@example.com", "new@example.com"):
        browser = PageBrowser()
        response = browser.submit(SIGN_UP, name=address, password=PASSWORD)
        page = browser.get(response.headers["Location"])
        pages.append((read_location(response), page.status_code, without_token(page).replace(address, "")))
    assert pages[0] == pages[1]
    assert [message.to for message in mailbox.emails] == ["new@example.com"]


def test_an_unknown_address_gets_the_same_response_to_a_recovery(user: User, mailbox: Mailbox) -> None:
    pages = []
    for address in ("ada@example.com", "unknown@example.com"):
        browser = PageBrowser()
        response = browser.submit(RECOVER, email=address)
        page = browser.get(response.headers["Location"])
        wrong = browser.submit(response.headers["Location"], code="000000")
        texts = [without_token(response).replace(address, "") for response in (page, wrong)]
        pages.append((read_location(response), wrong.status_code, texts))
    assert pages[0] == pages[1]
    assert [message.to for message in mailbox.emails] == ["ada@example.com"]


def test_a_sign_up_that_is_confirmed_at_once_signs_in(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"autoconfirm": True})
    assert read_location(browser.submit(SIGN_UP, name="new@example.com", password=PASSWORD)) == (303, ACCOUNT)
    assert browser.is_in
    duplicate = PageBrowser().submit(SIGN_UP, name="new@example.com", password=PASSWORD)
    assert (duplicate.status_code, "There is an account" in duplicate.content.decode()) == (422, True)


@pytest.mark.parametrize(
    ("name", "password", "message"),
    [
        ("new@example.com", "short", "needs at least 6 characters"),
        ("not-an-address@", PASSWORD, "Enter a valid"),
        ("", PASSWORD, "This field is required."),
    ],
)
def test_a_refused_sign_up_creates_no_account(browser: PageBrowser, name: str, password: str, message: str) -> None:
    response = browser.submit(SIGN_UP, name=name, password=password)
    assert response.status_code in (400, 422)
    assert message in response.content.decode()
    assert not User.objects.exists()


def test_disabled_features_are_hidden_and_refused(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    page = browser.text(SIGN_IN)
    for path in (SIGN_UP, CODE, RECOVER):
        assert f'href="{path}"' in page
        assert browser.get(path).status_code == 200
    auth_config(signup={"disabled": True, "email_enabled": False, "magic_link_enabled": False, "phone_enabled": False})
    page = browser.text(SIGN_IN)
    for path in (SIGN_UP, CODE, RECOVER):
        assert f'href="{path}"' not in page
        assert browser.get(path).status_code in (400, 422)
    assert "New accounts cannot be created here." in browser.get(SIGN_UP).content.decode()


@pytest.mark.parametrize("by", ["link", "code"])
def test_a_user_signs_in_without_a_password(browser: PageBrowser, user: User, mailbox: Mailbox, by: str) -> None:
    response = browser.submit(f"{CODE}?next=/account/profile", name="ada@example.com")
    assert read_location(response) == (303, f"{CONFIRM}?next=%2Faccount%2Fprofile")
    page = response.headers["Location"]
    assert browser.submit(page, code="wrong").status_code == 403
    done = browser.submit(page, code=code(mailbox)) if by == "code" else browser.submit(link(mailbox), to=CONFIRM)
    assert read_location(done) == (303, "/account/profile")
    assert browser.is_in


def test_a_code_signs_a_new_user_up(browser: PageBrowser, mailbox: Mailbox) -> None:
    response = browser.submit(CODE, name="new@example.com")
    assert read_location(browser.submit(response.headers["Location"], code=code(mailbox))) == (303, ACCOUNT)
    assert browser.is_in


def test_a_user_signs_in_by_sms(browser: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    vonage = Vonage(api_key=Secret("k"), api_secret=Secret("s"), sender="us")
    auth_config(signup={"phone_enabled": True}, sms={"provider": "vonage", "vonage": vonage})
    User.objects.filter(id=factories.make_user(email="ada@example.com").id).update(
        phone="15551234567", phone_confirmed_at=timezone.now()
    )
    response = browser.submit(CODE, name="+1 555 123 4567")
    page = browser.text(response.headers["Location"])
    assert "Check your phone" in page
    assert read_location(browser.submit(response.headers["Location"], code=str(mailbox.sms[-1].variables["Code"]))) == (
        303,
        ACCOUNT,
    )
    assert browser.is_in


@pytest.mark.parametrize("by", ["link", "code"])
def test_a_recovery_ends_with_a_new_password(browser: PageBrowser, user: User, mailbox: Mailbox, by: str) -> None:
    elsewhere = PageBrowser()
    elsewhere.sign_in("ada@example.com")
    response = browser.submit(f"{RECOVER}?next=/oauth/device", email="ada@example.com")
    page = response.headers["Location"]
    done = browser.submit(page, code=code(mailbox)) if by == "code" else browser.submit(link(mailbox), to=CONFIRM)
    target = f"{NEW_PASSWORD}?next=%2Foauth%2Fdevice"
    assert read_location(done) == (303, target)
    weak = browser.submit(target, password="abc")
    assert weak.status_code == 422
    assert read_location(browser.submit(target, password="another-password-1")) == (303, "/oauth/device")
    assert "The password is changed." in browser.text(ACCOUNT)
    assert not elsewhere.is_in
    assert elsewhere.sign_in("ada@example.com").status_code == 400
    assert elsewhere.sign_in("ada@example.com", "another-password-1").status_code == 303


def test_a_recovery_needs_no_nonce_and_ends_all_sessions_then(
    browser: PageBrowser, user: User, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True, "update_requires_current": True})
    browser.submit(RECOVER, email="ada@example.com")
    response = browser.submit(link(mailbox), to=CONFIRM)
    done = browser.submit(response.headers["Location"], password="another-password-1")
    assert read_location(done) == (303, SIGN_IN)
    assert "Sign in with the new one" in browser.text(SIGN_IN)
    assert not Session.objects.exists()
    assert browser.sign_in("ada@example.com", "another-password-1").status_code == 303


def test_an_old_recovery_does_not_replace_the_nonce(
    browser: PageBrowser, user: User, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(passwords={"update_requires_reauthentication": True})
    browser.submit(RECOVER, email="ada@example.com")
    browser.submit(link(mailbox), to=CONFIRM)
    AmrClaim.objects.update(updated_at=timezone.now() - timedelta(days=2))
    assert read_location(browser.get(NEW_PASSWORD)) == (303, "/account/password")
    response = browser.submit("/account/profile", to=NEW_PASSWORD, password="another-password-1")
    assert read_location(response) == (303, "/account/password")
    assert 'name="nonce"' in browser.text("/account/password")


def test_the_new_password_needs_a_recovery(inside: PageBrowser) -> None:
    assert read_location(inside.get(f"{NEW_PASSWORD}?next=/account/profile")) == (303, "/account/profile")
    assert PageBrowser().get(NEW_PASSWORD).headers["Location"] == f"{SIGN_IN}?next=%2Faccount%2Fnew-password"


def test_an_invited_user_chooses_a_password(browser: PageBrowser, mailbox: Mailbox) -> None:
    service = access_tokens.issue_service_token(role="service_role", lifetime=timedelta(hours=1), at=timezone.now())
    body = {"email": "guest@example.com"}
    target = "http://127.0.0.1:8081/account/confirm"
    assert Api().post(f"/invite?redirect_to={target}", body, bearer=service).status_code == 200
    assert "Accept the invitation" in browser.text(link(mailbox))
    response = browser.submit(link(mailbox), to=CONFIRM)
    assert read_location(response) == (303, NEW_PASSWORD)
    assert read_location(browser.submit(NEW_PASSWORD, password="another-password-1")) == (303, ACCOUNT)
    assert PageBrowser().sign_in("guest@example.com", "another-password-1").status_code == 303


def test_another_confirmation_is_sent(browser: PageBrowser, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(smtp={"max_frequency": timedelta(microseconds=1)})
    response = browser.submit(SIGN_UP, name="new@example.com", password=PASSWORD)
    page = response.headers["Location"]
    again = browser.submit(page, resend="1")
    assert read_location(again) == (303, page)
    assert "Another message is on its way." in browser.text(page)
    assert len(mailbox.emails) == 2
    assert read_location(browser.submit(page, code=code(mailbox))) == (303, ACCOUNT)


@pytest.mark.parametrize("page", ["/account/sign-up", "/account/code", "/account/recover"])
def test_a_browser_that_waits_for_a_message_finds_the_way_back_to_its_code(
    browser: PageBrowser, mailbox: Mailbox, page: str
) -> None:
    link = '<a href="/account/confirm?next=%2Faccount%2Fprofile">Enter the code of a message'
    fields = {"email": "new@example.com"} if page.endswith("recover") else {"name": "new@example.com"}
    assert link not in browser.text(f"{page}?next=/account/profile")
    browser.submit(page, password=PASSWORD, **fields)
    refused = browser.submit(f"{page}?next=/account/profile", password=PASSWORD, **fields)
    assert (refused.status_code, link in refused.content.decode()) == (429, True)
    assert "new@example.com" in browser.text("/account/confirm?next=/account/profile")


def test_an_unconfirmed_user_who_signs_in_can_request_another_message(
    browser: PageBrowser, user: User, mailbox: Mailbox
) -> None:
    User.objects.update(email_confirmed_at=None)
    for password, is_offered in (("wrong", False), (PASSWORD, True)):
        page = browser.sign_in("ada@example.com", password).content.decode()
        assert ("Enter the code of a message, or request another one" in page) is is_offered
    browser.submit("/account/confirm", resend="1")
    [mail] = mailbox.emails
    response = browser.submit("/account/confirm", code=mail.variables["Token"])
    assert (response.status_code, response.headers["Location"]) == (303, "/account")
    assert browser.is_in


def test_messages_that_follow_too_soon_say_when(browser: PageBrowser, user: User) -> None:
    browser.submit(RECOVER, email="ada@example.com")
    response = browser.submit(RECOVER, email="ada@example.com")
    assert response.status_code == 429
    assert "seconds." in response.content.decode()


def test_links_of_api_requests_stay_links_of_the_api(mailbox: Mailbox, user: User, auth_config: ChangeConfig) -> None:
    Api().post("/recover", {"email": "ada@example.com"})
    assert link(mailbox).startswith("/verify?token=")
    auth_config(pages={"enabled": False}, smtp={"max_frequency": timedelta(microseconds=1)})
    target = "http://127.0.0.1:8081/account/confirm"
    Api().post(f"/recover?redirect_to={target}", {"email": "ada@example.com"})
    assert link(mailbox).startswith("/verify?token=")


@pytest.mark.parametrize("path", ["", "/auth"])
def test_a_link_of_the_api_that_leads_to_a_page_is_redeemed_before_it(
    browser: PageBrowser, mailbox: Mailbox, user: User, auth_config: ChangeConfig, path: str
) -> None:
    service = f"http://127.0.0.1:8081{path}"
    auth_config(api={"external_url": service}, site={"url": f"{service}/account/"})
    Api().post("/recover", {"email": "ada@example.com"})
    sent = link(mailbox)
    assert sent.startswith(f"{path}/account/confirm?next={quote_plus(path)}%2Faccount%2F&token=")
    assert "Reset your password" in browser.text(sent.removeprefix(path))
    response = browser.submit(sent.removeprefix(path), to=CONFIRM)
    assert read_location(response) == (303, f"{path}{NEW_PASSWORD}?next={quote_plus(path)}%2Faccount%2F")


def test_links_lead_below_the_path_of_the_service(
    browser: PageBrowser, user: User, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(api={"external_url": "http://127.0.0.1:8081/auth"})
    response = browser.submit(f"{RECOVER}?next=/auth/account/profile", email="ada@example.com")
    assert read_location(response) == (303, "/auth/account/confirm?next=%2Fauth%2Faccount%2Fprofile")
    assert link(mailbox).startswith("/auth/account/confirm?next=%2Fauth%2Faccount%2Fprofile&token=")


def test_a_confirmed_change_of_the_address_keeps_the_session(
    inside: PageBrowser, user: User, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"secure_email_change_enabled": False})
    signed_in = Api().post("/token?grant_type=password", {"email": "ada@example.com", "password": PASSWORD}).json()
    target = "http://127.0.0.1:8081/account/confirm"
    before = inside.cookie
    Api().put(f"/user?redirect_to={target}", {"email": "eva@example.com"}, bearer=signed_in["access_token"])
    assert "eva@example.com" in inside.text(link(mailbox))
    sessions = set(Session.objects.values_list("id", flat=True))
    assert read_location(inside.submit(link(mailbox), to=CONFIRM)) == (303, ACCOUNT)
    assert set(Session.objects.values_list("id", flat=True)) == sessions
    page = inside.text(ACCOUNT)
    assert "eva@example.com" in page
    assert before


def test_two_confirmations_of_a_change(inside: PageBrowser, user: User, mailbox: Mailbox) -> None:
    signed_in = Api().post("/token?grant_type=password", {"email": "ada@example.com", "password": PASSWORD}).json()
    target = "http://127.0.0.1:8081/account/confirm"
    Api().put(f"/user?redirect_to={target}", {"email": "eva@example.com"}, bearer=signed_in["access_token"])
    assert len(mailbox.emails) == 2
    assert read_location(inside.submit(link(mailbox), to=CONFIRM)) == (303, ACCOUNT)
    assert "Open the link in the other email" in inside.text(ACCOUNT)
    mailbox.emails.reverse()
    assert read_location(inside.submit(link(mailbox), to=CONFIRM)) == (303, ACCOUNT)
    assert User.objects.get().email == "eva@example.com"


def test_a_banned_user_learns_it_from_the_link_only(browser: PageBrowser, user: User, mailbox: Mailbox) -> None:
    browser.submit(RECOVER, email="ada@example.com")
    User.objects.update(banned_until=timezone.now() + timedelta(hours=1))
    response = browser.submit(link(mailbox), to=CONFIRM) if browser.get(link(mailbox)).status_code == 200 else None
    assert response is None
    assert "This account is locked." in browser.get(link(mailbox)).content.decode()
