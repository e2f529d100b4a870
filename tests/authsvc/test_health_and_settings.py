"""GET /health and GET /settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

import authsvc
from authsvc.conf import AuthConfig, Provider, Secret
from tests.conftest import Api

ChangeConfig = Callable[..., AuthConfig]

SEED_PROVIDERS = (
    "apple azure bitbucket discord facebook figma github gitlab google keycloak linkedin notion snapchat spotify slack"
    " twitch twitter workos"
).split()
EXTERNAL = {*SEED_PROVIDERS, "anonymous_users", "email", "phone", "fly", "kakao", "linkedin_oidc", "slack_oidc", "zoom"}


@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_health_needs_no_database(api: Api, path: str) -> None:
    # Without the django_db mark any query would fail.
    response = api.get(path)
    assert response.status_code == 200
    assert response.json() == {
        "version": authsvc.__version__,
        "name": "authsvc",
        "description": "authsvc is a user registration and authentication API",
    }


def test_monitors_read_the_health_by_head() -> None:
    response = Client().head("/health")
    assert (response.status_code, response.content) == (200, b"")
    assert Client().head("/settings").status_code == 405


@pytest.mark.django_db
def test_health_and_settings_are_not_rate_limited(api: Api, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        for _ in range(40):
            assert api.get("/health").status_code == 200
            assert api.get("/settings").status_code == 200


@pytest.mark.parametrize("path", ["/settings", "/settings/"])
def test_the_settings_response_is_complete(api: Api, path: str) -> None:
    response = api.get(path)
    assert response.status_code == 200
    payload = response.json()
    assert payload.pop("external") == {name: name == "email" for name in EXTERNAL}
    assert payload == {
        "disable_signup": False,
        "autoconfirm": False,
        "mailer_autoconfirm": False,
        "phone_autoconfirm": False,
        "sms_provider": "",
        "saml_enabled": False,
        "saml_private_key_next_configured": False,
        "passkeys_enabled": False,
    }


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        ({"signup": {"disabled": True}}, {"disable_signup": True}),
        ({"mailer": {"autoconfirm": True}}, {"autoconfirm": True, "mailer_autoconfirm": True}),
        ({"sms": {"autoconfirm": True, "provider": "vonage"}}, {"phone_autoconfirm": True, "sms_provider": "vonage"}),
        ({"passkeys": {"enabled": True}}, {"passkeys_enabled": True}),
    ],
)
def test_a_setting_is_reported(
    api: Api, auth_config: ChangeConfig, config: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = api.get("/settings").json()
    auth_config(**config)
    after = api.get("/settings").json()
    assert {name: value for name, value in after.items() if value != before[name]} == changed


def test_enabled_sign_in_methods_are_listed(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(
        signup={"email_enabled": False, "phone_enabled": True, "anonymous_enabled": True},
        providers={"github": Provider(enabled=True), "google": Provider(enabled=False)},
    )
    external = api.get("/settings").json()["external"]
    assert {name for name, enabled in external.items() if enabled} == {"phone", "anonymous_users", "github"}


def test_no_secret_is_shown(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(
        jwt={"secret": Secret("jwt-secret-of-the-service")},
        smtp={"password": Secret("smtp-password-of-the-service"), "host": "smtp.internal"},
        providers={"github": Provider(enabled=True, client_ids=("client-id",), secret=Secret("client-secret"))},
        captcha={"secret": Secret("captcha-secret")},
    )
    text = api.get("/settings").content.decode()
    for secret in ("jwt-secret", "smtp-password", "client-secret", "captcha-secret", "smtp.internal", "client-id"):
        assert secret not in text
