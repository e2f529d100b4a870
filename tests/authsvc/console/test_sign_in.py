"""Sign-in to the console with a password, and sign-out."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import argon2
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from accounts.models import User
from authsvc.console.sign_in import console_session
from authsvc.models import AuditLogEntry
from tests import factories
from tests.authsvc.console.conftest import SIGN_IN, START, Console, remove_tokens
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD
from tokens.models import Session

pytestmark = pytest.mark.django_db

REFUSED = "Invalid login credentials"


def test_an_operator_signs_in_and_out(console: Console, operator: User) -> None:
    response = console.sign_in("op@example.com")
    assert (response.status_code, response.headers["Location"]) == (302, START)
    page = console.get()
    assert page.status_code == 200
    assert b"op@example.com" in page.content
    [session] = Session.objects.filter(user=operator)
    assert session.not_after is not None
    payload: Any = AuditLogEntry.objects.get().payload
    assert payload["action"] == "login"
    assert payload["actor_id"] == str(operator.id)
    assert payload["traits"] == {"provider": "email"}

    response = console.sign_out()
    assert (response.status_code, response.headers["Location"]) == (302, SIGN_IN)
    assert not Session.objects.filter(user=operator).exists()
    assert not console.is_in
    assert set(AuditLogEntry.objects.values_list("payload__action", flat=True)) == {"login", "logout"}


def test_an_operator_may_sign_in_by_phone(console: Console, operator: User, auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})
    User.objects.filter(id=operator.id).update(phone="15551234567", phone_confirmed_at=timezone.now())
    assert console.sign_in("+15551234567").status_code == 302
    assert console.is_in


@pytest.mark.parametrize(
    ("columns", "name", "password", "message"),
    [
        ({}, "op@example.com", "wrong", REFUSED),
        ({}, "nobody@example.com", PASSWORD, REFUSED),
        ({}, "15550000000", PASSWORD, "Phone logins are disabled"),
        ({"role": "authenticated"}, "op@example.com", PASSWORD, REFUSED),
        ({"role": None}, "op@example.com", PASSWORD, REFUSED),
        ({"role": "SVC_ADMIN"}, "op@example.com", PASSWORD, REFUSED),
        (
            {"role": "authenticated", "raw_app_meta_data": {"role": "svc_admin"}, "raw_user_meta_data": {"role": "x"}},
            "op@example.com",
            PASSWORD,
            REFUSED,
        ),
        ({"role": "authenticated", "email_confirmed_at": None}, "op@example.com", PASSWORD, REFUSED),
        ({"role": "authenticated", "banned": True}, "op@example.com", PASSWORD, REFUSED),
        ({"banned": True}, "op@example.com", PASSWORD, "User is banned"),
        ({"email_confirmed_at": None}, "op@example.com", PASSWORD, "Email not confirmed"),
        ({"password": None}, "op@example.com", PASSWORD, REFUSED),
        ({"aud": "elsewhere"}, "op@example.com", PASSWORD, REFUSED),
        ({}, "op@example.com", "", "This field is required."),
        ({}, "", PASSWORD, "This field is required."),
    ],
)
def test_a_failed_sign_in_creates_no_session(
    console: Console, operator: User, columns: dict[str, Any], name: str, password: str, message: str
) -> None:
    changes = {key: value for key, value in columns.items() if key != "banned"}
    if columns.get("banned"):
        changes["banned_until"] = timezone.now() + timedelta(hours=1)
    User.objects.filter(id=operator.id).update(**changes or {"updated_at": timezone.now()})
    response = console.sign_in(name, password)
    assert 400 <= response.status_code < 500
    assert message in response.content.decode()
    assert not console.cookie()
    assert not Session.objects.exists()
    assert not AuditLogEntry.objects.exclude(payload__action="sign_in_refused").exists()
    assert not console.is_in


def test_users_who_are_not_operators_get_the_error_of_a_wrong_password(operator: User) -> None:
    factories.make_user(email="ua@example.com")
    responses = [
        remove_tokens(Console().sign_in(name, password))
        for name, password in (("ua@example.com", PASSWORD), ("ua@example.com", "wrong"))
    ]
    assert responses[0] == responses[1]


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("op@example.com", "wrong"),
        ("user@example.com", PASSWORD),
        ("user@example.com", "wrong"),
        ("nobody@example.com", PASSWORD),
    ],
)
def test_every_failure_verifies_one_hash_and_runs_the_same_statements(
    console: Console, monkeypatch: pytest.MonkeyPatch, name: str, password: str
) -> None:
    factories.make_user(email="user@example.com")
    assert console.sign_in("nobody@example.com").status_code == 400  # fills caches
    hashes: list[str] = []
    verify = argon2.PasswordHasher.verify

    def spy(hasher: argon2.PasswordHasher, hash: str, password: str) -> bool:
        hashes.append(hash)
        return verify(hasher, hash, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", spy)
    with CaptureQueriesContext(connection) as statements:
        assert console.sign_in(name, password).status_code == 400
    # The limit of the client, the user, the count of failures, two limits of audit entries, and the entry.
    assert (len(hashes), len(statements)) == (1, 6)


def test_too_many_attempts_are_rejected_with_a_waiting_time(
    console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    auth_config(limits={"token_refresh": 0.001})
    for _ in range(30):
        assert console.sign_in("op@example.com", "wrong").status_code == 400
    response = console.sign_in("op@example.com")
    assert response.status_code == 429
    assert 0 < int(response.headers["Retry-After"]) <= 3600
    assert "Request rate limit reached" in response.content.decode()
    assert not console.is_in
    # Console and password grant share one rate limit.
    body = {"email": "op@example.com", "password": PASSWORD}
    assert Api().post("/token?grant_type=password", body).status_code == 429


def test_a_form_without_csrf_token_is_rejected(console: Console, operator: User) -> None:
    response: Any = console.client.post(SIGN_IN, {"name": "op@example.com", "password": PASSWORD})
    assert response.status_code == 403
    assert "Form expired" in response.content.decode()
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    ("referer", "page"),
    [
        ("http://testserver/operator/login/?next=/operator/account/", "/operator/login/?next=/operator/account/"),
        ("https://evil.example/operator//evil.example", "/operator//evil.example"),
        ("https://evil.example/account", START),
        ("", START),
    ],
)
def test_an_expired_form_leads_to_its_page_again(console: Console, referer: str, page: str) -> None:
    response: Any = console.client.post(SIGN_IN, {"name": "x"}, headers={"Referer": referer})
    assert response.status_code == 403
    assert f'href="{page}">Open the page again<' in response.content.decode()


def test_a_form_from_another_origin_is_rejected(console: Console, operator: User) -> None:
    for origin, status in (("https://evil.example", 403), ("null", 403), ("http://127.0.0.1:8081", 302)):
        response = console.submit(SIGN_IN, headers={"Origin": origin}, name="op@example.com", password=PASSWORD)
        assert response.status_code == status
        assert Session.objects.exists() is (status == 302)


def test_a_changed_external_url_is_a_trusted_origin(console: Console, operator: User, settings: Settings) -> None:
    for origin in ("https://one.example.com", "https://two.example.com"):
        settings.CSRF_TRUSTED_ORIGINS = [origin]
        response = console.submit(SIGN_IN, headers={"Origin": origin}, name="op@example.com", password=PASSWORD)
        assert response.status_code == 302
        console.sign_out()


def test_sign_out_needs_a_csrf_token(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    assert console.client.post("/operator/logout/").status_code == 403
    assert console.client.get("/operator/logout/").status_code == 405
    assert console.is_in


def test_a_cookie_from_before_the_sign_in_stays_anonymous(console: Console, operator: User) -> None:
    thief = factories.make_user(email="thief@example.com", role="svc_admin")
    other = Console()
    other.sign_in("thief@example.com")
    planted = other.cookie()
    other_token = other.cookie("operator_csrf")
    other.sign_out()

    console.client.cookies["operator_session"] = planted
    console.client.cookies["operator_csrf"] = other_token
    console.sign_in("op@example.com")
    assert console.is_in
    assert console.cookie() != planted
    assert console.cookie("operator_csrf") != other_token
    other.client.cookies["operator_session"] = planted
    assert not other.is_in
    assert not Session.objects.filter(user=thief).exists()


def test_a_forged_cookie_is_rejected(console: Console, operator: User) -> None:
    session = factories.make_session(operator).session
    for forged in (str(session.id), "x", f"{session.id}:abc:def", "." * 3000):
        console.client.cookies["operator_session"] = forged
        assert not console.is_in


@pytest.mark.parametrize(
    ("requested", "target"),
    [
        ("/operator/?x=1", "/operator/?x=1"),
        ("https://evil.example/operator/", START),
        ("//evil.example/operator/", START),
        ("/operator/../oauth/authorize?client_id=x", START),
        ("/operator/%2E%2e/user", START),
        ("/user", START),
        ("javascript:alert(1)", START),
        ("/operator/\\evil.example", START),
        ("", START),
    ],
)
def test_sign_in_redirects_only_within_the_console(
    console: Console, operator: User, requested: str, target: str
) -> None:
    assert console.sign_in("op@example.com", next=requested).headers["Location"] == target


def test_sign_in_redirects_to_the_requested_page(console: Console, operator: User) -> None:
    response = console.get("/operator/somewhere/?x=1")
    assert response.status_code == 302
    assert response.headers["Location"] == f"{SIGN_IN}?next=/operator/somewhere/%3Fx%3D1"


def lose_role(user: User) -> None:
    User.objects.filter(id=user.id).update(role="authenticated")


def ban(user: User) -> None:
    User.objects.filter(id=user.id).update(banned_until=timezone.now() + timedelta(hours=1))


def end_session(user: User) -> None:
    Session.objects.filter(user=user).delete()


def delete(user: User) -> None:
    user.delete()


def leave_open_too_long(user: User) -> None:
    factories.backdate(*Session.objects.filter(user=user), by=console_session.MAX_AGE + timedelta(minutes=1))


def enrol_second_factor(user: User) -> None:
    factories.make_factor(user)


@pytest.mark.parametrize(
    "happening",
    [lose_role, ban, end_session, delete, leave_open_too_long, enrol_second_factor],
    ids=lambda f: f.__name__,
)
def test_a_revoked_sign_in_ends_at_the_next_request(console: Console, operator: User, happening: Any) -> None:
    console.sign_in("op@example.com")
    assert console.is_in
    happening(operator)
    assert not console.is_in
    assert console.get("/operator/jsi18n/").status_code == 302


def test_a_role_without_administration_rights_loses_access(
    console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    console.sign_in("op@example.com")
    auth_config(jwt={"admin_roles": ("service_role",)})
    assert not console.is_in


def test_the_sign_in_ends_after_an_idle_hour(console: Console, operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    console.sign_in("op@example.com")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3500)
    assert console.is_in
    monkeypatch.setattr(time, "time", lambda: now + 7000)
    assert console.is_in
    monkeypatch.setattr(time, "time", lambda: now + 7000 + 3700)
    assert not console.is_in


def test_the_configured_inactivity_timeout_applies(
    console: Console, operator: User, auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth_config(sessions={"inactivity_timeout": timedelta(minutes=10)})
    console.sign_in("op@example.com")
    start = timezone.now()
    for minutes, is_in in ((8, True), (16, True), (27, False)):
        monkeypatch.setattr(timezone, "now", lambda minutes=minutes: start + timedelta(minutes=minutes))
        assert console.is_in is is_in


def test_pages_require_the_second_factor(console: Console, operator: User) -> None:
    factories.make_factor(operator)
    assert console.sign_in("op@example.com").status_code == 302
    assert console.get().status_code == 302
    waiting = console.get(SIGN_IN)
    assert waiting.headers["Location"] == "/operator/second-step/?next=%2Foperator%2F"
    page = console.get("/operator/second-step/")
    assert page.status_code == 200
    assert "second factor" in page.content.decode()
    assert b"op@example.com" not in page.content
    assert console.submit("/operator/second-step/", to="/operator/logout/").status_code == 302
    assert not Session.objects.exists()


def test_an_unverified_factor_requires_no_second_step(console: Console, operator: User) -> None:
    factories.make_factor(operator, status="unverified")
    console.sign_in("op@example.com")
    assert console.is_in


def test_the_second_factor_page_requires_the_password_step(console: Console, operator: User) -> None:
    assert console.get("/operator/second-step/").headers["Location"] == SIGN_IN
    console.sign_in("op@example.com")
    assert console.get(SIGN_IN).headers["Location"] == START


def test_an_access_token_does_not_authenticate_in_the_console(operator: User) -> None:
    token = factories.make_session(operator).access_token
    response = Client().get(START, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 302


@pytest.mark.parametrize(
    ("path", "referer", "next_page"),
    [
        (
            "/operator/accounts/user/export/?q=ada",
            "http://testserver/operator/accounts/user/?q=ada",
            "accounts/user/?q=ada",
        ),
        ("/operator/personal-data/", "http://testserver/operator/accounts/user/", "accounts/user/"),
        ("/operator/account/password/", "http://testserver/operator/account/password/", "account/password/"),
        ("/operator/personal-data/", "", ""),
        ("/operator/personal-data/", "https://evil.example/account/", ""),
        ("/operator/personal-data/", "http://[", ""),
    ],
)
def test_a_form_after_the_end_of_the_session_leads_back_to_its_page(
    inside: Console, path: str, referer: str, next_page: str
) -> None:
    Session.objects.all().delete()
    refused = inside.submit(SIGN_IN, to=path, headers={"Referer": referer} if referer else {})
    assert refused.status_code == 302
    page = inside.get(refused.headers["Location"]).content.decode()
    [shown] = re.findall(r'name="next" value="([^"]*)"', page)
    response = inside.sign_in("op@example.com", next=shown)
    assert (response.status_code, response.headers["Location"]) == (302, f"{START}{next_page}")
    assert inside.get(response.headers["Location"]).status_code == 200


def test_a_link_on_another_site_opens_the_page_of_a_signed_in_operator(inside: Console) -> None:
    """Browsers send the cookie only after a step within the site."""
    page, session = f"{START}accounts/user/?state=banned", inside.client.cookies.pop("operator_session")
    refused = inside.get(page, **{"Sec-Fetch-Site": "cross-site"})
    step = inside.get(refused.headers["Location"], **{"Sec-Fetch-Site": "cross-site"})
    assert (step.status_code, b"<form" in step.content) == (200, False)
    [url] = re.findall(r'<meta http-equiv="refresh" content="0; url=([^"]+)">', step.content.decode())
    assert b'name="password"' in inside.get(url, **{"Sec-Fetch-Site": "same-origin"}).content
    inside.client.cookies["operator_session"] = session.value
    response = inside.get(url, **{"Sec-Fetch-Site": "same-origin"})
    assert (response.status_code, response.headers["Location"]) == (302, page)


def test_the_error_of_a_field_describes_the_field(console: Console) -> None:
    page = console.submit(SIGN_IN, name="", password="").content.decode()
    for name in ("name", "password"):
        [field] = re.findall(rf'<input[^>]* name="{name}"[^>]*>', page)
        assert f'aria-describedby="id_{name}_error"' in field
        assert f'id="id_{name}_error">This field is required.<' in page
    assert "<title>Problem: Sign in · authsvc console</title>" in page


def test_a_long_form_says_at_its_top_that_it_has_errors(inside: Console) -> None:
    path = "/operator/accounts/user/create/"
    assert "Correct the errors below." not in inside.text(path)
    page = inside.submit(path, email="ada@example.com", user_metadata="{").content.decode()
    assert "<title>Problem: Create user · authsvc console</title>" in page
    assert page.index('role="alert">Correct the errors below.<') < page.index('<form method="post" id="confirm-action"')
