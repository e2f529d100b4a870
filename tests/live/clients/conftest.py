"""A server with an RS256 key and a mail server, shared by the tests of all client libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import ports, preloaded_python
from tests.live import servers
from tests.live.clients.mailbox_server import MailboxServer

LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyz:0123456789"
SUBJECT = "Your code is {{ .Token }}"
FIXED_CODE = "123456"
CLIENT, CLIENT_SECRET, APP = "service", "the secret of the service", "app"
PHONES = [f"1555000{number}" for number in range(1000, 1020)]
"""Phone numbers whose code is always FIXED_CODE: the first ten for the JavaScript tests, the rest for Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running server and its sent emails."""

    url: str
    mailbox: MailboxServer
    admin_token: str
    """Access token of a program that calls the administration API."""
    provider_port: int
    """Port of the OpenID provider configured as Keycloak, with the clients CLIENT (this service) and APP."""


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Passwords need eight characters with a letter and a digit.

    The minimum interval is 2 seconds between emails of one type, and 1 second between SMS.
    """
    keys = _printed("generate_keys")
    with servers.fresh_database() as database_url, MailboxServer() as mailbox:
        env = {
            "AUTH_JWT_KEYS": keys,
            "AUTH_URI_ALLOW_LIST": "https://app.example.com/**",
            "AUTH_SMTP_HOST": mailbox.smtp.host,
            "AUTH_SMTP_PORT": str(mailbox.smtp.port),
            "AUTH_SMTP_ADMIN_EMAIL": "admin@example.org",
            "AUTH_SMTP_MAX_FREQUENCY": "2s",
            "AUTH_OAUTH_SERVER_ENABLED": "true",
            "AUTH_OAUTH_SERVER_ALLOW_DYNAMIC_REGISTRATION": "true",
            "AUTH_PAGES_ENABLED": "true",
            "AUTH_EXTERNAL_PHONE_ENABLED": "true",
            "AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED": "true",
            "AUTH_SMS_TEST_OTP": ",".join(f"{number}:{FIXED_CODE}" for number in PHONES),
            "AUTH_SMS_MAX_FREQUENCY": "1s",
            "AUTH_PASSWORD_MIN_LENGTH": "8",
            "AUTH_PASSWORD_REQUIRED_CHARACTERS": LETTERS_AND_DIGITS,
            **{
                f"AUTH_MAILER_SUBJECTS_{kind}": SUBJECT
                for kind in ("CONFIRMATION", "INVITE", "RECOVERY", "MAGIC_LINK", "EMAIL_CHANGE", "REAUTHENTICATION")
            },
            **{
                f"AUTH_RATE_LIMIT_{bucket}": "10000"
                for bucket in ("EMAIL_SENT", "VERIFY", "TOKEN_REFRESH", "OTP", "ANONYMOUS_USERS")
            },
        }
        port, provider_port = ports.free_port(), ports.free_port()
        env |= {
            "AUTH_JWT_ISSUER": f"http://127.0.0.1:{port}",
            "AUTH_EXTERNAL_KEYCLOAK_ENABLED": "true",
            "AUTH_EXTERNAL_KEYCLOAK_URL": f"http://127.0.0.1:{provider_port}",
            "AUTH_EXTERNAL_KEYCLOAK_CLIENT_ID": f"{CLIENT},{APP}",
            "AUTH_EXTERNAL_KEYCLOAK_SECRET": CLIENT_SECRET,
            "AUTH_EXTERNAL_KEYCLOAK_REDIRECT_URI": f"http://127.0.0.1:{port}/callback",
            "AUTH_SECURITY_MANUAL_LINKING_ENABLED": "true",
            "AUTH_EXTERNAL_WEB3_ETHEREUM_ENABLED": "true",
            "AUTH_EXTERNAL_WEB3_SOLANA_ENABLED": "true",
        }
        folder = tmp_path_factory.mktemp("clients")
        with servers.LiveServer(folder=folder, database_url=database_url, env=env, port=port) as server:
            admin_token = _printed("mint_token", "--role=service_role", "--expires=1h", AUTH_JWT_KEYS=keys)
            yield Service(url=server.url, mailbox=mailbox, admin_token=admin_token.strip(), provider_port=provider_port)


def _printed(*command: str, **env: str) -> str:
    made = preloaded_python.run(
        [str(servers.PROJECT / "manage.py"), *command],
        # The settings module of the test run ignores the environment.
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "authsvc.settings", **env},
    )
    made.check_returncode()
    return made.stdout
