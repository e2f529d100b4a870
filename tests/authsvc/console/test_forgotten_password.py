"""The console's way back after a forgotten password: request, link, second factor, new password."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from authsvc.messaging import EmailType
from tests import factories
from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import SECRET
from tests.authsvc.console.conftest import SIGN_IN, START, Console, remove_tokens
from tests.conftest import Api, ApiResponse, ChangeConfig, Mailbox
from tests.factories import PASSWORD
from tests.observations import audit_payloads, audit_trail, backdate_rate_limits
from tests.performance.test_query_budgets import counted_statements
from tokens.models import OneTimeToken, Session

pytestmark = pytest.mark.django_db

FORGOTTEN = "/operator/forgotten-password/"
RESET = "/operator/reset-password/"
NEW = "/operator/new-password/"
NEW_PASSWORD = "a quite different phrase 7"


def ask(console: Console, email: str = "op@example.com", **options: Any) -> ApiResponse:
    return console.submit(FORGOTTEN, email=email, **options)


def token_in(mailbox: Mailbox) -> str:
    (mail,) = mailbox.emails
    link = mail.variables["ConfirmationURL"]
    # The external URL, and neither the site nor the host of the request.
    match = re.fullmatch(r"http://127\.0\.0\.1:8081/operator/reset-password/\?token=([0-9a-f]{56})", link)
    assert match, link
    return match[1]


def follow(console: Console, token: str) -> ApiResponse:
    """Open the page of the link, and press its button."""
    page = console.get(f"{RESET}?token={token}")
    found = re.search(rb'name="token" value="([^"]+)"', page.content)
    assert found, page.content
    return console.submit(f"{RESET}?token={token}", to=RESET, token=found[1].decode())


def set_password(console: Console, password: str = NEW_PASSWORD, repeated: str | None = None) -> ApiResponse:
    return console.submit(NEW, password=password, repeated=password if repeated is None else repeated)


@pytest.fixture
def token(console: Console, operator: User, mailbox: Mailbox) -> str:
    """The token that was sent to the operator."""
    assert ask(console).status_code == 200
    return token_in(mailbox)


def test_an_operator_sets_a_new_password(console: Console, operator: User, mailbox: Mailbox, token: str) -> None:
    elsewhere = factories.make_session(operator).session
    (mail,) = mailbox.emails
    assert (mail.type, mail.to) == (EmailType.OPERATOR_RECOVERY, "op@example.com")
    assert set(mail.variables) == {"SiteURL", "Email", "ConfirmationURL", "TokenHash", "RedirectTo", "Data"}
    followed = follow(console, token)
    assert (followed.status_code, followed.headers["Location"]) == (302, NEW)
    session = Session.objects.exclude(pk=elsewhere.pk).get()
    assert session.not_after is not None
    assert session.not_after <= timezone.now() + timedelta(minutes=15)
    assert "op@example.com" in console.text(NEW)
    done = set_password(console)
    assert (done.status_code, done.headers["Location"]) == (302, SIGN_IN)
    assert "The password is changed" in console.text(SIGN_IN)
    assert not Session.objects.exists()
    assert not OneTimeToken.objects.exists()
    assert console.sign_in("op@example.com", PASSWORD).status_code == 400
    assert console.sign_in("op@example.com", NEW_PASSWORD).status_code == 302
    assert console.is_in
    actions = [payload["action"] for payload in audit_payloads()]
    assert actions == ["user_recovery_requested", "login", "user_updated_password", "login"]
    assert {payload["actor_id"] for payload in audit_payloads()[:3]} == {str(operator.id)}
    assert [mail.type for mail in mailbox.emails][1:] == [EmailType.PASSWORD_CHANGED]


def test_the_link_works_once(console: Console, token: str) -> None:
    assert follow(console, token).status_code == 302
    again = follow(Console(), token)
    assert (again.status_code, "Email link is invalid or has expired" in again.content.decode()) == (403, True)
    assert token not in again.content.decode()


def test_opening_the_page_of_the_link_redeems_nothing(console: Console, token: str) -> None:
    page = console.get(f"{RESET}?token={token}")
    assert page.headers["Referrer-Policy"] == "strict-origin"
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["X-Frame-Options"] == "DENY"
    assert f'action="{RESET}"' in page.content.decode()
    assert b"op@example.com" not in page.content
    assert OneTimeToken.objects.exists()
    assert not Session.objects.exists()
    assert console.client.post(RESET, {"token": token}).status_code == 403  # no CSRF token
    assert OneTimeToken.objects.exists()


def test_a_recovery_opens_no_page_but_that_of_the_password(console: Console, token: str) -> None:
    follow(console, token)
    assert not console.is_in
    for path in ("/operator/accounts/user/", "/operator/account/", "/operator/account/password/"):
        assert console.get(path).headers["Location"].startswith(SIGN_IN)
    assert console.get(SIGN_IN).headers["Location"].startswith(NEW)


def test_the_second_factor_comes_before_the_password(console: Console, operator: User, token: str) -> None:
    app = factories.make_factor(operator, secret=SECRET)
    follow(console, token)
    assert console.get(NEW).headers["Location"] == "/operator/second-step/?next=%2Foperator%2Fnew-password%2F"
    refused = console.submit("/operator/second-step/", to=NEW, password=NEW_PASSWORD, repeated=NEW_PASSWORD)
    assert refused.headers["Location"].startswith("/operator/second-step/")
    verified = console.submit("/operator/second-step/", code=factor_requests.code(), factor=str(app.id), next=NEW)
    assert (verified.status_code, verified.headers["Location"]) == (302, NEW)
    assert not console.is_in
    assert set_password(console).headers["Location"] == SIGN_IN
    assert console.sign_in("op@example.com", NEW_PASSWORD).status_code == 302
    assert not console.is_in


def test_a_link_replaces_the_cookie_of_an_earlier_sign_in(console: Console, operator: User, mailbox: Mailbox) -> None:
    """A link of another account must not become part of the session in the browser."""
    factories.make_user(email="other@example.com", role="svc_admin")
    console.sign_in("other@example.com")
    before, csrf = console.cookie(), console.cookie("operator_csrf")
    ask(Console())
    follow(console, token_in(mailbox))
    assert console.cookie() != before
    assert console.cookie("operator_csrf") != csrf
    assert not console.is_in
    assert "op@example.com" in console.text(NEW)


@pytest.mark.parametrize(
    ("password", "repeated", "status", "message"),
    [
        ("abc", "abc", 422, "Password should be at least 6 characters."),
        (NEW_PASSWORD, "other", 400, "The two passwords differ."),
        (PASSWORD, PASSWORD, 422, "New password should be different"),
        ("", "", 400, "This field is required."),
    ],
)
def test_a_refused_password_changes_nothing(
    console: Console, token: str, password: str, repeated: str, status: int, message: str
) -> None:
    follow(console, token)
    response = set_password(console, password, repeated)
    assert (response.status_code, message in response.content.decode()) == (status, True)
    assert Session.objects.exists()
    assert set_password(console).status_code == 302


def test_a_recovery_ends_after_15_minutes(console: Console, token: str) -> None:
    follow(console, token)
    Session.objects.update(not_after=timezone.now() - timedelta(seconds=1))
    assert set_password_location(console) == SIGN_IN


def set_password_location(console: Console) -> str:
    return str(console.get(NEW).headers["Location"])


def test_an_ordinary_session_cannot_use_the_page(inside: Console) -> None:
    """It would set a password without the current one."""
    assert set_password_location(inside) == START
    submitted = inside.submit(START, to=NEW, password=NEW_PASSWORD, repeated=NEW_PASSWORD)
    assert submitted.headers["Location"] == START
    assert Console().sign_in("op@example.com").status_code == 302


def test_links_of_users_open_nothing_and_stay_valid(console: Console, api: Api, mailbox: Mailbox) -> None:
    factories.make_user(email="user@example.com")
    api.post("/recover", {"email": "user@example.com"})
    token = re.search(r"token=([0-9a-f]{56})", mailbox.emails[0].variables["ConfirmationURL"])
    assert token
    refused = follow(console, token[1])
    assert (refused.status_code, "Email link is invalid or has expired" in refused.content.decode()) == (403, True)
    assert OneTimeToken.objects.exists()
    assert not Session.objects.exists()


def test_the_response_reveals_no_account(operator: User, mailbox: Mailbox) -> None:
    factories.make_user(email="user@example.com")
    factories.make_user(email="unproven@example.com", role="svc_admin", confirmed=False)
    factories.make_user(email="banned@example.com", role="svc_admin", banned_until=timezone.now() + timedelta(days=1))
    factories.make_user(email="sso@example.com", role="svc_admin", is_sso_user=True)
    ask(Console(), "warm@example.com")  # fills caches
    responses, statements = [], []
    addresses = ("op", "user", "absent", "unproven", "banned", "sso")
    for name in addresses:
        console = Console()
        with CaptureQueriesContext(connection) as captured:
            responses.append(remove_tokens(ask(console, f"{name}@example.com")))
        statements.append([sql.split()[0] for sql in counted_statements(captured)])
    assert [response[0] for response in responses] == [200] * len(addresses)
    assert all(response == responses[0] for response in responses)
    assert all(len(statement) == len(statements[0]) for statement in statements), statements
    assert [mail.to for mail in mailbox.emails] == ["op@example.com", "banned@example.com"]


def test_a_repeated_request_waits_for_every_address(operator: User) -> None:
    for address in ("op@example.com", "absent@example.com"):
        console = Console()
        assert ask(console, address).status_code == 200
        again = ask(console, address)
        assert (again.status_code, "Retry-After" in again.headers) == (429, True)
    backdate_rate_limits(timedelta(hours=1))
    assert ask(Console()).status_code == 200


def test_requests_are_rate_limited(operator: User, auth_config: ChangeConfig) -> None:
    auth_config(limits={"otp": 0.001})
    statuses = [ask(Console(), f"user{number}@example.com").status_code for number in range(31)]
    assert statuses == [200] * 30 + [429]


def test_the_request_needs_a_captcha(operator: User, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(captcha={"enabled": True, "provider": "hcaptcha", "site_key": "site-key"})
    console = Console()
    page = console.get(FORGOTTEN)
    assert b"site-key" in page.content
    assert "https://js.hcaptcha.com" not in page.headers["Content-Security-Policy"].split("script-src")[0]
    assert "https://hcaptcha.com" in page.headers["Content-Security-Policy"]
    refused = ask(console)
    assert (refused.status_code, "captcha protection" in refused.content.decode()) == (400, True)
    assert not mailbox.emails


def test_the_link_leads_to_the_external_url_for_any_host(operator: User, mailbox: Mailbox) -> None:
    ask(Console(), headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"})
    token_in(mailbox)


@pytest.mark.parametrize("token", ["", "x", "0" * 56, "pkce_" + "0" * 56, "'; --", "\N{SNOWMAN}", "a" * 5000])
def test_hostile_tokens_are_refused(console: Console, operator: User, token: str) -> None:
    page = console.get(RESET)
    assert "The link is incomplete" in page.content.decode()
    response = console.submit(FORGOTTEN, to=RESET, token=token)
    assert 400 <= response.status_code < 500
    assert not Session.objects.exists()
    assert [action for action, _ in audit_trail() if action == "login"] == []
