"""One server with an RS256 key and a mail server, shared by the tests of all client libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import live
from tests.clients.postbox import Postbox

LETTERS_AND_DIGITS = "abcdefghijklmnopqrstuvwxyz:0123456789"
ISSUER = "https://auth.example.com"
SUBJECT = "Your code is {{ .Token }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running server and the mail it has sent."""

    url: str
    post: Postbox


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Passwords need eight characters with a letter and a digit; a second mail of a kind may follow after 2 seconds."""
    made = subprocess.run(
        [sys.executable, str(live.PROJECT / "manage.py"), "generate_keys"], capture_output=True, text=True, check=True
    )
    with live.fresh_database() as database_url, Postbox() as post:
        env = {
            "AUTH_JWT_KEYS": made.stdout,
            "AUTH_JWT_ISSUER": ISSUER,
            "AUTH_URI_ALLOW_LIST": "https://app.example.com/**",
            "AUTH_SMTP_HOST": post.smtp.host,
            "AUTH_SMTP_PORT": str(post.smtp.port),
            "AUTH_SMTP_ADMIN_EMAIL": "admin@example.org",
            "AUTH_SMTP_MAX_FREQUENCY": "2s",
            "AUTH_PASSWORD_MIN_LENGTH": "8",
            "AUTH_PASSWORD_REQUIRED_CHARACTERS": LETTERS_AND_DIGITS,
            **{f"AUTH_MAILER_SUBJECTS_{kind}": SUBJECT for kind in ("CONFIRMATION", "RECOVERY", "MAGIC_LINK")},
            **{
                f"AUTH_RATE_LIMIT_{bucket}": "10000"
                for bucket in ("EMAIL_SENT", "VERIFY", "TOKEN_REFRESH", "OTP", "ANONYMOUS_USERS")
            },
        }
        folder = tmp_path_factory.mktemp("clients")
        with live.LiveServer(folder=folder, database_url=database_url, env=env) as server:
            yield Service(url=server.url, post=post)
