"""Access, cookies, headers and static files of the console, and their absence on the API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, URLPattern, URLResolver, reverse

from accounts.models import User
from authsvc import conf
from authsvc.conf import value_types
from authsvc.console import static_files
from authsvc.console import urls as console_urls
from tests import factories
from tests.authsvc.console.conftest import SIGN_IN, START, Console
from tests.conftest import Api, ChangeConfig
from tests.live.servers import PROJECT

pytestmark = pytest.mark.django_db

PATHS = [
    "/operator",
    START,
    SIGN_IN,
    "/operator/logout/",
    "/operator/nowhere/",
    f"{static_files.URL}operator/console.css",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "DELETE"])
def test_a_disabled_console_answers_404(api: Api, auth_config: ChangeConfig, method: str, path: str) -> None:
    auth_config(console={"enabled": False})
    response, unknown = api.request(method, path), api.request(method, "/nowhere")
    assert (response.status_code, response.content) == (404, unknown.content)
    assert response.headers.keys() == unknown.headers.keys()


def console_routes(patterns: list[URLPattern | URLResolver] = console_urls.urlpatterns, prefix: str = "/") -> list[str]:
    """A path for each route of the console."""
    paths = []
    for pattern in patterns:
        path = prefix + re.sub(r"<\w+:\w+>|\(\?P<\w+>[^)]*\)", "1", str(pattern.pattern)).strip("^$")
        paths += console_routes(pattern.url_patterns, path) if isinstance(pattern, URLResolver) else [path]
    return paths


def test_every_route_requires_an_operator(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(console={"enabled": False})
    paths = console_routes()
    assert {"/operator", START, "/operator/accounts/user/", "/operator/accounts/user/1/change/"} <= set(paths)
    assert {path for path in paths if api.get(path).status_code != 404} == set()


@pytest.mark.parametrize(
    ("allowed", "peer", "forwarded_for", "status"),
    [
        ("10.0.0.0/8", "10.1.2.3", "", 200),
        ("10.0.0.0/8", "192.0.2.1", "", 404),
        ("10.0.0.0/8", "192.0.2.1", "10.1.2.3", 404),
        ("203.0.113.0/24", "10.0.0.1", "203.0.113.7", 200),
        ("203.0.113.0/24", "10.0.0.1", "203.0.113.7, 192.0.2.1", 404),
        ("192.0.2.1,2001:db8::/32", "2001:db8::1", "", 200),
        ("192.0.2.1,2001:db8::/32", "192.0.2.1", "", 200),
        ("192.0.2.1,2001:db8::/32", "192.0.2.2", "", 404),
        ("10.0.0.0/8", "unix:", "", 404),
        ("", "192.0.2.1", "", 200),
    ],
)
def test_only_allowed_networks_have_access(
    auth_config: ChangeConfig, allowed: str, peer: str, forwarded_for: str, status: int
) -> None:
    auth_config(console={"allowed_networks": value_types.parse_networks(allowed) if allowed else ()})
    headers = {"X-Forwarded-For": forwarded_for} if forwarded_for else {}
    client = Client(REMOTE_ADDR=peer)
    assert client.get(SIGN_IN, headers=headers).status_code == status
    assert client.get(f"{static_files.URL}operator/console.css", headers=headers).status_code == status
    assert client.get("/health", headers=headers).status_code == 200


def test_pages_have_a_strict_content_security_policy(console: Console, operator: User) -> None:
    pages = [console.get(SIGN_IN), console.get("/operator/nowhere/"), console.sign_in("op@example.com"), console.get()]
    pages += [console.get("/operator/nowhere/"), console.get("/operator/?e=1")]
    for page in pages:
        policy = dict(rule.strip().split(" ", 1) for rule in page.headers["Content-Security-Policy"].split(";"))
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self'",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert page.headers["X-Frame-Options"] == "DENY"
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["Referrer-Policy"] == "same-origin"
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        text = page.content.decode()
        assert not re.search(r"<style|<script(?![^>]*\ssrc=)|\sstyle=|\son\w+=", text)
        assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", text)


def test_responses_have_no_cors_headers(console: Console) -> None:
    page = console.get(SIGN_IN, Origin="https://evil.example")
    assert "Access-Control-Allow-Origin" not in page.headers
    assert Api().get("/health", headers={"Origin": "https://x.example"}).headers["Access-Control-Allow-Origin"] == "*"


def test_cookies_are_limited_to_the_console_path_and_http_only(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    console.get()
    assert set(console.client.cookies) == {"operator_session", "operator_csrf"}
    for cookie in console.client.cookies.values():
        assert cookie["path"] == "/operator/"
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"
        assert not cookie["domain"]
        assert not cookie["max-age"]  # gone with the browser
        assert not cookie["secure"]


@pytest.mark.parametrize(
    ("external_url", "is_secure", "origin"),
    [
        ("https://Auth.example.com/auth", True, "https://auth.example.com"),
        ("http://localhost:8081", False, "http://localhost:8081"),
    ],
)
def test_cookies_are_secure_behind_tls(external_url: str, is_secure: bool, origin: str) -> None:
    # Django reads its settings once per process, so this needs a separate one.
    names = "bool(s.SESSION_COOKIE_SECURE), bool(s.CSRF_COOKIE_SECURE), list(s.CSRF_TRUSTED_ORIGINS)"
    ask = f"import json; from authsvc import settings as s; print(json.dumps([{names}]))"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=PROJECT,
        env={**os.environ, "AUTH_API_EXTERNAL_URL": external_url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [is_secure, is_secure, [origin]]


def test_the_cookie_contains_no_secret(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    session = operator.sessions.get()
    assert session.refresh_token_hmac_key is not None
    assert session.refresh_token_hmac_key not in console.cookie()
    assert len(console.cookie()) < 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/settings"),
        ("POST", "/token?grant_type=password"),
        ("GET", "/user"),
        ("POST", "/signup"),
        ("GET", "/admin/users"),
        ("GET", "/verify?type=signup&token=x"),
        ("GET", "/nowhere"),
        ("GET", "/operatorx"),
    ],
)
def test_the_api_sets_no_cookie(console: Console, operator: User, method: str, path: str) -> None:
    console.sign_in("op@example.com")
    everything = "; ".join(f"{name}={cookie.value}" for name, cookie in console.client.cookies.items())
    for client in (console.client, Client(headers={"Cookie": everything})):
        response: Any = client.generic(method, path, b"{}", content_type="application/json")
        assert not response.cookies
        assert "Cookie" not in response.headers.get("Vary", "")
        assert "script-src" not in response.headers["Content-Security-Policy"]


def test_the_api_ignores_the_cookie(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    response: Any = console.client.get("/user")
    assert response.status_code == 401


def test_reading_the_operator_needs_one_statement(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    with CaptureQueriesContext(connection) as statements:
        assert console.get("/operator/jsi18n/").status_code == 200
    assert len(statements) == 1


def test_the_sign_in_page_needs_no_statement(console: Console) -> None:
    with CaptureQueriesContext(connection) as statements:
        assert console.get(SIGN_IN).status_code == 200
    assert not len(statements)


def test_static_files_need_no_statement_and_are_cached_permanently(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    with CaptureQueriesContext(connection) as statements:
        response: Any = console.client.get(f"{static_files.URL}operator/console.css")
    assert b"--primary" in response.content
    assert not len(statements)
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.headers["Content-Type"].startswith("text/css")
    assert not response.cookies


def test_every_referenced_static_file_exists(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    text = console.get().content.decode() + Console().get(SIGN_IN).content.decode()
    named = set(re.findall(rf'(?:src|href)="({re.escape(static_files.URL)}[^"]+)"', text))
    assert len(named) > 5
    for path in named:
        assert console.get(path).status_code == 200, path


@pytest.mark.parametrize(
    "path", ["../apps.py", "operator/../../apps.py", "admin/../../apps.py", "%2e%2e/apps.py", "operator/", "admin", "x"]
)
def test_only_static_files_are_served(console: Console, path: str) -> None:
    assert console.get(f"{static_files.URL}{path}").status_code == 404


@pytest.mark.parametrize("name", ["password_change", "password_change_done", "view_on_site"])
def test_unused_pages_of_the_stock_admin_do_not_exist(name: str) -> None:
    with pytest.raises(NoReverseMatch):
        reverse(f"admin:{name}", args=[1, 1] if name == "view_on_site" else [])


def test_a_large_form_is_rejected_unread(console: Console) -> None:
    response: Any = console.client.post(SIGN_IN, {"name": "x" * 1_100_000, "password": "x"})
    assert response.status_code == 413


def test_missing_pages_are_reported_to_operators_only(console: Console, operator: User) -> None:
    assert console.get("/operator/nowhere/").status_code == 302
    console.sign_in("op@example.com")
    page = console.get("/operator/nowhere/")
    assert page.status_code == 404
    assert "This page does not exist" in page.content.decode()


def test_a_path_with_a_line_break_is_a_missing_page_of_the_console(
    console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    page = console.get("/operator/a%0Ab")
    assert (page.status_code, page.headers["Cache-Control"]) == (404, "no-store")
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    auth_config(console={"enabled": False})
    assert "script-src" not in console.get("/operator/a%0Ab").headers["Content-Security-Policy"]


def test_an_invalid_multipart_form_is_a_bad_request(console: Console) -> None:
    console.get(SIGN_IN)  # the CSRF cookie, without which the form is not read
    response: Any = console.client.post(SIGN_IN, b"{}", content_type="multipart/form-data")
    assert response.status_code == 400


def test_the_path_without_a_slash_redirects_to_the_start_page(api: Api) -> None:
    assert api.get("/operator").headers["Location"] == START


def test_the_console_is_enabled_for_all_networks_by_default() -> None:
    assert conf.Console() == conf.Console(enabled=True, allowed_networks=())


def test_api_requests_need_no_statement_of_the_console(api: Api) -> None:
    token = factories.make_session().access_token
    api.get("/user", bearer=token)
    with CaptureQueriesContext(connection) as statements:
        response = api.get("/user", bearer=token)
    assert (response.status_code, len(statements)) == (200, 1)


def test_the_address_of_a_form_shows_a_page_to_a_browser(inside: Console) -> None:
    for path in ("personal-data/", "accounts/user/export/", "logout/"):
        page = inside.get(f"{START}{path}")
        assert (page.status_code, page.headers["Allow"]) == (405, "POST")
        assert "This address only receives a form." in page.content.decode()


def test_a_list_is_titled_by_its_rows(inside: Console) -> None:
    assert "<title>Users · authsvc console</title>" in inside.text("/operator/accounts/user/")


def test_breadcrumbs_of_an_action_lead_to_the_list_and_cancel_to_the_row(inside: Console, operator: User) -> None:
    form = {"action": "add_note", "_selected_action": str(operator.pk), "source_row": str(operator.pk)}
    page = inside.submit(START, to="/operator/accounts/user/", **form).content.decode()
    assert '› <a href="/operator/accounts/user/">Users</a> › Add note' in page
    assert f'href="/operator/accounts/user/{operator.pk}/change/">Cancel<' in page
