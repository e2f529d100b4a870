"""Sign-in with a password, the cookie of the pages, and sign-out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.backends import signed_cookies
from django.core import signing
from django.db import connection, transaction
from django.utils import timezone

from accounts.models import PasskeyChallenge, User
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.models import AuditLogEntry
from tests import factories
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tests.page_browser import ACCOUNT, SIGN_IN, PageBrowser, read_text
from tokens.models import Session

pytestmark = pytest.mark.django_db

REFUSED = "The email address, the phone number or the password is wrong."


def test_a_user_signs_in_and_out(browser: PageBrowser, user: User) -> None:
    response = browser.get()
    assert (response.status_code, response.headers["Location"]) == (303, "/account/sign-in?next=%2Faccount")
    response = browser.sign_in("ada@example.com", query="?next=%2Faccount")
    assert (response.status_code, response.headers["Location"]) == (303, ACCOUNT)
    assert "ada@example.com" in browser.text(ACCOUNT)
    session = Session.objects.get(user=user)
    entry: Any = AuditLogEntry.objects.get().payload
    assert (entry["action"], entry["session_id"]) == ("login", str(session.id))

    response = browser.submit("/account/sign-out")
    assert (response.status_code, response.headers["Location"]) == (303, "/account/signed-out")
    assert "signed out" in browser.text("/account/signed-out")
    assert not Session.objects.exists()
    assert not browser.is_in
    assert set(AuditLogEntry.objects.values_list("payload__action", flat=True)) == {"login", "logout"}
    # Without a session there is nothing to ask.
    assert browser.get("/account/sign-out").headers["Location"] == "/account/signed-out"


@pytest.mark.parametrize(
    ("target", "is_permitted"),
    [("http://localhost:3000/start", True), ("https://evil.example/", False), ("javascript:alert(1)", False)],
)
def test_the_page_after_the_sign_out_leads_back_to_a_permitted_application(
    inside: PageBrowser, target: str, is_permitted: bool
) -> None:
    response = inside.submit(f"/account/sign-out?redirect_to={target}")
    assert response.status_code == 303
    assert ("redirect_to" in response.headers["Location"]) is is_permitted
    for path in (response.headers["Location"], f"/account/signed-out?redirect_to={target}"):
        assert (f'href="{target}"' in inside.text(path)) is is_permitted


@pytest.mark.parametrize("path", ["/account/signed-out", "/account/deleted"])
def test_a_link_tells_a_signed_in_user_nothing_wrong(inside: PageBrowser, path: str) -> None:
    response = inside.get(path)
    assert (response.status_code, response.headers["Location"]) == (303, ACCOUNT)


def test_a_signed_in_browser_skips_the_sign_in(inside: PageBrowser) -> None:
    for query, target in (("", ACCOUNT), ("?next=/oauth/device", "/oauth/device"), ("?next=//evil.example", ACCOUNT)):
        response = inside.get(f"{SIGN_IN}{query}")
        assert (response.status_code, response.headers["Location"]) == (303, target)


@pytest.mark.parametrize(
    ("columns", "name", "password", "message"),
    [
        ({}, "ada@example.com", "wrong-guess", REFUSED),
        ({}, "unknown@example.com", PASSWORD, REFUSED),
        ({}, "15550000000", PASSWORD, "Sign-in with a phone number is not available."),
        ({"banned": True}, "ada@example.com", "wrong-guess", REFUSED),
        ({"banned": True}, "ada@example.com", PASSWORD, "This account is locked."),
        ({"email_confirmed_at": None}, "ada@example.com", PASSWORD, "not confirmed yet"),
        ({"aud": "elsewhere"}, "ada@example.com", PASSWORD, REFUSED),
        ({}, "ada@example.com", "", "This field is required."),
    ],
)
def test_a_failed_sign_in_starts_no_session(
    browser: PageBrowser, user: User, columns: dict[str, Any], name: str, password: str, message: str
) -> None:
    changes = {key: value for key, value in columns.items() if key != "banned"}
    if columns.get("banned"):
        changes["banned_until"] = timezone.now() + timedelta(hours=1)
    User.objects.filter(id=user.id).update(**changes or {"updated_at": timezone.now()})
    response = browser.sign_in(name, password)
    assert response.status_code in (400, 422)
    assert message in response.content.decode()
    assert not password or password not in response.content.decode()
    assert not Session.objects.exists()
    assert not browser.is_in


def test_pages_and_api_share_the_rate_limit(browser: PageBrowser, user: User, slow_refill: None) -> None:
    for _ in range(30):
        assert browser.sign_in("ada@example.com", "wrong").status_code == 400
    response = browser.sign_in("ada@example.com")
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    body = {"email": "ada@example.com", "password": PASSWORD}
    assert Api().post("/token?grant_type=password", body).status_code == 429


def test_switched_off_pages_do_not_exist(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    stylesheet = browser.text(SIGN_IN).partition('rel="stylesheet" href="')[2].partition('"')[0]
    assert browser.get(stylesheet).status_code == 200
    auth_config(pages={"enabled": False})
    missing = browser.get("/missing")
    for path in (SIGN_IN, ACCOUNT, "/account/", "/account/signed-out", stylesheet):
        response = browser.get(path)
        assert (response.status_code, response.content) == (404, missing.content)


def test_pages_work_with_a_trailing_slash_and_below_a_path(
    browser: PageBrowser, user: User, auth_config: ChangeConfig
) -> None:
    auth_config(api={"external_url": "http://127.0.0.1:8081/auth"})
    response = browser.get("/account/")
    assert response.headers["Location"] == "/auth/account/sign-in?next=%2Fauth%2Faccount%2F"
    page = browser.text("/account/sign-in/")
    assert 'action="/auth/account/sign-in/"' in page
    assert 'href="/auth/account/static/' in page
    # A proxy removes the path before the request arrives here.
    response = browser.sign_in("ada@example.com", query="/?next=%2Fauth%2Faccount%2Fprofile%3Fa%3D1")
    assert response.headers["Location"] == "/auth/account/profile?a=1"
    assert browser.get("/account/sign-in?next=/account").headers["Location"] == "/auth/account"


@pytest.mark.parametrize(
    "next",
    [
        *("//evil.example", "/\\evil.example", "///evil.example", "https://evil.example/account", "/account\\..\\x"),
        *("/\t/evil.example", "/\n/evil.example", "/account\r\nSet-Cookie:a=b", "javascript:alert(1)", "account"),
        *("/account/../operator/", "/account/%2e%2e/operator/", "/accounts", "/verify?token=1", "/%2faccount", ""),
        *("http:account", "/account/../../", "/.//evil.example", "/account/..//evil.example", "@evil.example"),
    ],
)
def test_next_leads_to_no_other_place(browser: PageBrowser, user: User, next: str) -> None:
    response = browser.submit(SIGN_IN, name="ada@example.com", password=PASSWORD, next=next)
    assert (response.status_code, response.headers["Location"]) == (303, ACCOUNT)


@pytest.mark.parametrize(
    ("next", "target"),
    [
        ("/account/profile", "/account/profile"),
        ("/account?a=//evil.example", "/account?a=//evil.example"),
        ("/oauth/consent?authorization_id=1", "/oauth/consent?authorization_id=1"),
        ("/oauth/authorize?redirect_uri=https://a.example", "/oauth/authorize?redirect_uri=https://a.example"),
        ("/account/x/../profile", "/account/profile"),
        ("/account/profile#part", "/account/profile"),
    ],
)
def test_next_leads_to_own_pages(browser: PageBrowser, user: User, next: str, target: str) -> None:
    response = browser.submit(SIGN_IN, name="ada@example.com", password=PASSWORD, next=next)
    assert (response.status_code, response.headers["Location"]) == (303, target)


def test_attributes_of_the_cookie(browser: PageBrowser, user: User, auth_config: ChangeConfig) -> None:
    browser.get(SIGN_IN)
    before = browser.client.cookies["account_session"]
    assert (before["httponly"], before["samesite"], before["path"], before["secure"]) == (True, "Lax", "/", "")
    assert before["max-age"] == ""
    browser.sign_in("ada@example.com")
    assert browser.client.cookies["account_session"]["max-age"] == 30 * 24 * 3600

    auth_config(api={"external_url": "https://auth.example.com"})
    browser.get(SIGN_IN)
    secure = browser.client.cookies["__Host-account_session"]
    assert (secure["httponly"], secure["samesite"], secure["path"], secure["secure"]) == (True, "Lax", "/", True)
    assert secure["domain"] == ""


def test_the_cookie_holds_no_token_and_no_secret_of_the_session(inside: PageBrowser) -> None:
    content = signing.loads(
        inside.cookie, salt="accounts.pages", serializer=signed_cookies.SessionStore().serializer, max_age=60
    )
    assert content["session"] == str(Session.objects.get().id)
    assert set(content) <= {"session", "csrf"}


def test_a_sign_in_replaces_the_cookie_and_the_earlier_session(inside: PageBrowser, user: User) -> None:
    planted, first = inside.cookie, Session.objects.get()
    other = factories.make_user(email="eve@example.com")
    browser = PageBrowser()
    browser.get(SIGN_IN)
    before = browser.cookie
    browser.sign_in("eve@example.com")
    assert browser.cookie != before
    # The cookie from before the sign-in does not gain the session.
    attacker = PageBrowser()
    attacker.cookie = before
    assert not attacker.is_in
    assert browser.is_in
    assert Session.objects.filter(user=other).count() == 1
    # A forged form of a signed-in browser cannot exchange its session without the secret.
    victim = PageBrowser()
    victim.cookie = planted
    response: Any = victim.client.post(SIGN_IN, {"name": "eve@example.com", "password": PASSWORD})
    assert response.status_code == 403
    assert Session.objects.filter(id=first.id).exists()


@pytest.mark.parametrize("change", ["x{}", "{}x", "{}", ""])
def test_a_changed_cookie_is_worthless(inside: PageBrowser, change: str) -> None:
    body, _, signature = inside.cookie.rpartition(":")
    inside.cookie = change.format(f"{body[:-1]}{'a' if body[-1] != 'a' else 'b'}:{signature}")
    assert not inside.is_in


def test_a_cookie_of_the_console_is_no_cookie_of_the_pages(browser: PageBrowser, user: User) -> None:
    session = factories.make_session(user).session
    store: Any = signed_cookies.SessionStore()
    store["session"] = str(session.id)
    browser.cookie = store._get_session_key()
    assert not browser.is_in


@pytest.mark.parametrize("end", ["deleted", "banned", "expired", "timebox", "inactivity", "soft-deleted", "password"])
def test_the_session_row_decides(inside: PageBrowser, user: User, auth_config: ChangeConfig, end: str) -> None:
    now = timezone.now()
    match end:
        case "deleted":
            Session.objects.all().delete()
        case "banned":
            User.objects.update(banned_until=now + timedelta(hours=1))
        case "expired":
            Session.objects.update(not_after=now - timedelta(seconds=1))
        case "timebox":
            auth_config(sessions={"timebox": timedelta(hours=1)})
            Session.objects.update(created_at=now - timedelta(hours=2))
        case "inactivity":
            auth_config(sessions={"inactivity_timeout": timedelta(hours=1)})
            Session.objects.update(created_at=now - timedelta(hours=2), refreshed_at=None)
        case "soft-deleted":
            User.objects.update(deleted_at=now)
        case "password":
            bearer = Api().post("/token?grant_type=password", {"email": user.email, "password": PASSWORD}).json()
            Api().put("/user", {"password": "another-password-1"}, bearer=bearer["access_token"])
    cookie = inside.cookie
    assert not inside.is_in
    # It does not come back.
    User.objects.update(banned_until=None, deleted_at=None)
    inside.cookie = cookie if end != "banned" else inside.cookie
    assert not inside.is_in or end in ("expired", "timebox", "inactivity", "soft-deleted")


def test_a_visit_is_a_use_of_the_session(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"inactivity_timeout": timedelta(hours=1)})
    Session.objects.update(created_at=timezone.now() - timedelta(minutes=50))
    assert inside.is_in
    Session.objects.update(created_at=timezone.now() - timedelta(hours=5))
    assert inside.is_in


@pytest.mark.parametrize("columns", [{"oauth_client": True}, {"is_anonymous": True}])
def test_sessions_of_clients_and_anonymous_users_are_no_sign_in(
    inside: PageBrowser, user: User, columns: dict[str, Any]
) -> None:
    if "is_anonymous" in columns:
        User.objects.update(is_anonymous=True)
    else:
        Session.objects.update(oauth_client_id="00000000-0000-4000-8000-000000000001", scopes="email")
    assert not inside.is_in


def test_a_form_without_a_valid_csrf_token_is_rejected(browser: PageBrowser, user: User) -> None:
    browser.get(SIGN_IN)
    fields = {"name": "ada@example.com", "password": PASSWORD}
    for token in ({}, {"csrfmiddlewaretoken": "a" * 64}):
        response: Any = browser.client.post(SIGN_IN, {**fields, **token})
        assert response.status_code == 403
        assert "Form expired" in response.content.decode()
    for origin in ("https://evil.example", "null"):
        assert browser.submit(SIGN_IN, headers={"Origin": origin}, **fields).status_code == 403
    assert not Session.objects.exists()
    assert browser.submit(SIGN_IN, headers={"Origin": "http://127.0.0.1:8081"}, **fields).status_code == 303


def test_forms_of_a_further_host_of_the_service_are_accepted(
    browser: PageBrowser, user: User, auth_config: ChangeConfig
) -> None:
    auth_config(mailer={"external_hosts": ("login.example.com",)})
    headers = {"Origin": "https://login.example.com", "X-Forwarded-Host": "login.example.com"}
    fields = {"name": "ada@example.com", "password": PASSWORD}
    assert browser.submit(SIGN_IN, headers=headers, **fields).status_code == 303


@pytest.mark.parametrize("path", [SIGN_IN, "/account/provider", "/account/confirm", "/account/code"])
def test_parameters_with_nul_are_rejected(browser: PageBrowser, auth_config: ChangeConfig, path: str) -> None:
    auth_config(custom_providers={"enabled": True})
    fields = {"provider": "custom:\0", "token": "\0", "type": "\0", "name": "\0", "next": "/account\0"}
    assert browser.submit(SIGN_IN, to=path, **fields).status_code == 400


def test_a_csrf_token_of_another_browser_is_rejected(browser: PageBrowser, user: User) -> None:
    token = PageBrowser().text(SIGN_IN).partition('csrfmiddlewaretoken" value="')[2].partition('"')[0]
    response = browser.submit(SIGN_IN, name="ada@example.com", password=PASSWORD, csrfmiddlewaretoken=token)
    assert response.status_code == 403


def test_an_expired_form_leads_to_its_page_again(browser: PageBrowser) -> None:
    """So does one whose user has signed out in another tab, and then to the sign-in and back."""
    page: Any = browser.client.post("/account/email?x=1&y=2", {"email": "new@example.com"})
    assert page.status_code == 403
    assert '<a class="button primary" href="/account/email?x=1&amp;y=2">' in page.content.decode()


@pytest.mark.parametrize("path", [SIGN_IN, "/account/signed-out", ACCOUNT])
def test_headers(inside: PageBrowser, path: str) -> None:
    page = (inside if path == ACCOUNT else PageBrowser()).get(path)
    assert page.status_code == 200
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert page.headers["X-Frame-Options"] == "DENY"
    policy = page.headers["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
    ):
        assert part in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "Access-Control-Allow-Origin" not in page.headers


def test_the_captcha_is_required(browser: PageBrowser, user: User, auth_config: ChangeConfig) -> None:
    auth_config(captcha={"enabled": True, "provider": "turnstile", "site_key": "key"})
    page = browser.get(SIGN_IN)
    assert 'data-sitekey="key"' in page.content.decode()
    assert "frame-src https://challenges.cloudflare.com" in page.headers["Content-Security-Policy"]
    response = browser.sign_in("ada@example.com")
    assert response.status_code == 400
    assert "captcha" in response.content.decode()
    assert not Session.objects.exists()


def test_a_large_form_is_rejected(browser: PageBrowser) -> None:
    refused = browser.submit(SIGN_IN, name="a" * 300_000, password="x")
    assert (refused.status_code, "The form is too large. Shorten your input." in read_text(refused)) == (413, True)


def test_a_failure_of_the_service_shows_the_request_only(browser: PageBrowser, user: User) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE users RENAME COLUMN reauthentication_sent_at TO renamed")
        response = browser.sign_in("ada@example.com")
        transaction.set_rollback(True)
    assert response.status_code == 500
    assert "Something went wrong" in response.content.decode()
    assert "reauthentication_sent_at" not in response.content.decode()


def test_a_passkey_needs_the_captcha_before_its_prompt(browser: PageBrowser, auth_config: ChangeConfig) -> None:
    assert "passkey" not in browser.text(SIGN_IN)
    party = {"rp_id": "localhost", "rp_display_name": "x", "rp_origins": ("http://localhost:8081",)}
    auth_config(passkeys={"enabled": True}, webauthn=party)
    prompt = browser.submit(SIGN_IN, ask="passkey")
    assert (prompt.status_code, "webauthn.js" in prompt.content.decode()) == (200, True)
    for credential in ("", "{", "{}"):
        response = browser.submit(
            SIGN_IN, credential=credential, challenge=str(PasskeyChallenge.objects.order_by("-created_at")[0].id)
        )
        assert response.status_code == 400
    assert not Session.objects.exists()
    auth_config(captcha={"enabled": True, "provider": "turnstile", "site_key": "key"})
    assert "The captcha was not solved." in browser.submit(SIGN_IN, ask="passkey").content.decode()


@pytest.mark.parametrize("fields", [{"credential": "{}"}, {"ask": "x"}, {"ask": "passkey"}])
def test_fields_of_passkeys_do_not_exempt_a_password_from_its_limits(
    browser: PageBrowser, user: User, auth_config: ChangeConfig, fields: dict[str, str]
) -> None:
    auth_config(captcha={"enabled": True, "provider": "turnstile", "site_key": "key"}, passkeys={"enabled": False})
    response = browser.submit(SIGN_IN, name="ada@example.com", password=PASSWORD, **fields)
    assert "The captcha was not solved." in response.content.decode()
    assert not Session.objects.exists()
    buckets = fetch_rows(f"SELECT DISTINCT bucket FROM {namespaced('rate_limits')}", ())
    assert [bucket for (bucket,) in buckets] == ["Token"]


def test_a_malformed_form_gets_a_page(browser: PageBrowser) -> None:
    types = ("multipart/form-data; boundary=", "application/x-www-form-urlencoded; charset=latin-1")
    for content_type in types:
        response = browser.client.post(SIGN_IN, data="a=b", content_type=content_type)
        assert (response.status_code, response.headers["Content-Type"]) == (400, "text/html; charset=utf-8")
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    response = browser.client.post(SIGN_IN, data={f"field{number}": "" for number in range(1_001)})
    assert (response.status_code, response.headers["Content-Type"]) == (400, "text/html; charset=utf-8")


def test_an_escaped_path_too_long_for_the_cookie_is_dropped(inside: PageBrowser) -> None:
    for length, target in ((100, "/account/" + "%F0%9F%98%80" * 100), (2_000, ACCOUNT)):
        response = inside.client.get(SIGN_IN, {"next": "/account/" + "\U0001f600" * length})
        assert response.headers["Location"] == target
