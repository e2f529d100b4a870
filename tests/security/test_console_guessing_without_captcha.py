"""A program guesses passwords at the console's sign-in, while the API asks for a captcha."""

from __future__ import annotations

import pytest
from responses import RequestsMock

from accounts.models import User
from authsvc.conf import Secret
from tests.authsvc.console.conftest import SIGN_IN, Console
from tests.conftest import ChangeConfig
from tests.factories import PASSWORD, make_user
from tests.fakes.http_peer import MockedServer, in_json

pytestmark = pytest.mark.django_db

SITE_KEY = "10000000-ffff-ffff-ffff-000000000001"


@pytest.fixture
def operator() -> User:
    return make_user(email="op@example.com", role="svc_admin")


@pytest.fixture
def service(mocked_requests: RequestsMock) -> MockedServer:
    """The captcha service, which accepts every token."""
    server = MockedServer(mocked_requests)
    server.respond(in_json({"success": True}))
    return server


@pytest.mark.parametrize(
    ("provider", "field", "origin"),
    [
        ("hcaptcha", "h-captcha-response", "https://js.hcaptcha.com"),
        ("turnstile", "cf-turnstile-response", "https://challenges.cloudflare.com"),
    ],
)
def test_console_sign_in_needs_the_captcha(
    operator: User, service: MockedServer, auth_config: ChangeConfig, provider: str, field: str, origin: str
) -> None:
    auth_config(captcha={"enabled": True, "provider": provider, "secret": Secret("x"), "site_key": SITE_KEY})
    console = Console()
    refused = console.sign_in("op@example.com")
    assert refused.status_code == 400
    assert "captcha" in refused.content.decode()
    assert not console.is_in
    assert console.submit(SIGN_IN, name="op@example.com", password=PASSWORD, **{field: "  "}).status_code == 400

    page = console.get(SIGN_IN)
    assert f'data-sitekey="{SITE_KEY}"' in page.content.decode()
    assert f'<script src="{origin}' in page.content.decode()
    policy = page.headers["Content-Security-Policy"]
    assert "frame-src https://" in policy
    assert "default-src 'none'" in policy

    accepted = console.submit(SIGN_IN, name="op@example.com", password=PASSWORD, **{field: "solved"})
    assert accepted.status_code == 302
    assert console.is_in
    # Only the sign-in page loads scripts of the captcha service.
    assert "https://" not in console.get().headers["Content-Security-Policy"]


def test_a_rejected_captcha_ends_the_attempt(
    operator: User, mocked_requests: RequestsMock, auth_config: ChangeConfig
) -> None:
    auth_config(captcha={"enabled": True, "secret": Secret("x"), "site_key": SITE_KEY})
    MockedServer(mocked_requests).respond(in_json({"success": False, "error-codes": ["invalid-input-response"]}))
    console = Console()
    response = console.submit(SIGN_IN, name="op@example.com", password=PASSWORD, **{"h-captcha-response": "stale"})
    assert response.status_code == 400
    assert "invalid-input-response" in response.content.decode()
    assert not console.is_in


def test_without_a_site_key_the_page_names_the_setting(operator: User, auth_config: ChangeConfig) -> None:
    auth_config(captcha={"enabled": True, "secret": Secret("x")})
    console = Console()
    assert "AUTH_SECURITY_CAPTCHA_SITE_KEY" in console.get(SIGN_IN).content.decode()
    assert console.sign_in("op@example.com").status_code == 400


def test_without_captcha_the_page_loads_nothing_from_other_origins(operator: User) -> None:
    console = Console()
    page = console.get(SIGN_IN)
    assert "https://" not in page.headers["Content-Security-Policy"]
    assert "data-sitekey" not in page.content.decode()
    assert console.sign_in("op@example.com").status_code == 302
