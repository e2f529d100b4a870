"""Apple's client secret: its claims, the command that creates it, and the warning before it expires."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.core.management import CommandError, call_command

from authsvc.conf import Provider, Secret
from oauthproviders import tasks
from oauthproviders.providers import apple
from tests.conftest import ChangeConfig

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "AuthKey_KEY1234567.p8"
    path.write_text(pem(KEY), encoding="ascii")
    return str(path)


def create_secret(*, lifetime: timedelta, at: datetime | None = None) -> str:
    now = at or datetime.now(UTC)
    return apple.create_client_secret(
        team_id="TEAM123456",
        key_id="KEY1234567",
        client_id="com.example.web",
        private_key=pem(KEY),
        lifetime=lifetime,
        at=now,
    )


def test_the_claims_of_the_secret() -> None:
    secret = create_secret(lifetime=timedelta(days=180), at=AT)
    assert jwt.get_unverified_header(secret) == {"alg": "ES256", "typ": "JWT", "kid": "KEY1234567"}
    issued_at = int(AT.timestamp())
    options: Any = {"verify_exp": False, "verify_iat": False}
    assert jwt.decode(secret, KEY.public_key(), ["ES256"], options, audience="https://appleid.apple.com") == {
        "iss": "TEAM123456",
        "iat": issued_at,
        "exp": issued_at + 180 * 86400,
        "aud": "https://appleid.apple.com",
        "sub": "com.example.web",
    }
    assert apple.client_secret_expiry(secret) == AT + timedelta(days=180)


@pytest.mark.parametrize(
    "private_key",
    ["", "no key", pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)), pem(KEY)[:-60]],
    ids=["empty", "text", "RSA", "cut off"],
)
def test_a_key_of_another_kind_is_an_error(private_key: str) -> None:
    with pytest.raises(ValueError, match="not an elliptic-curve private key"):
        apple.create_client_secret(
            team_id="t", key_id="k", client_id="c", private_key=private_key, lifetime=timedelta(days=1), at=AT
        )


@pytest.mark.parametrize("text", ["", "secret", "a.b.c", jwt.encode({}, "k" * 32), jwt.encode({"sub": "x"}, "k" * 32)])
def test_another_text_has_no_expiry(text: str) -> None:
    assert apple.client_secret_expiry(text) is None


# The command

OPTIONS = ("--team-id", "TEAM123456", "--key-id", "KEY1234567")


def run(*arguments: str) -> tuple[str, str]:
    """The standard output and error of the command."""
    stdout, stderr = io.StringIO(), io.StringIO()
    call_command("apple_secret", *OPTIONS, *arguments, stdout=stdout, stderr=stderr)
    return stdout.getvalue(), stderr.getvalue()


def test_the_command_prints_the_secret_and_its_expiry(key_file: str, auth_config: ChangeConfig) -> None:
    auth_config(providers={"apple": Provider(client_ids=("com.example.web", "com.example.ios"))})
    stdout, stderr = run("--key-file", key_file)
    assert stdout.count("\n") == 1
    claims = jwt.decode(stdout.strip(), KEY.public_key(), ["ES256"], audience="https://appleid.apple.com")
    assert (claims["sub"], claims["iss"], claims["exp"] - claims["iat"]) == (
        "com.example.web",
        "TEAM123456",
        4380 * 3600,
    )
    assert f"{datetime.fromtimestamp(claims['exp'], UTC):%Y-%m-%d}" in stderr


def test_the_command_accepts_client_id_and_lifetime(key_file: str) -> None:
    stdout, _ = run("--key-file", key_file, "--client-id", "com.example.other", "--expires", "1h")
    claims = jwt.decode(stdout.strip(), KEY.public_key(), ["ES256"], audience="https://appleid.apple.com")
    assert (claims["sub"], claims["exp"] - claims["iat"]) == ("com.example.other", 3600)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--client-id", "c", "--expires", "0"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires", "4383h"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires=-1h"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires", "half a year"), "--expires: "),
        ((), "--client-id: required, because AUTH_EXTERNAL_APPLE_CLIENT_ID is empty"),
    ],
)
def test_the_command_rejects_invalid_arguments(
    arguments: tuple[str, ...], message: str, key_file: str, auth_config: ChangeConfig
) -> None:
    auth_config(providers={"apple": Provider()})
    with pytest.raises(CommandError, match=message):
        run("--key-file", key_file, *arguments)


@pytest.mark.parametrize(
    "content", [None, b"", b"text", b"\xff\x00", pem(KEY).encode()[:100]], ids=["none", "empty", "text", "bytes", "cut"]
)
def test_the_command_reports_an_invalid_key_file(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key.p8"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=r"^--key-file: ") as caught:
        run("--key-file", str(path), "--client-id", "c")
    assert "\n" not in str(caught.value)


# The warning


@pytest.mark.parametrize(
    ("create", "enabled", "message"),
    [
        (lambda: create_secret(lifetime=timedelta(days=31)), True, ""),
        (lambda: create_secret(lifetime=timedelta(days=29)), True, "expires soon"),
        (lambda: create_secret(lifetime=timedelta(seconds=-1)), True, "has expired"),
        (lambda: "not-a-token", True, "is not an output"),
        (lambda: create_secret(lifetime=timedelta(days=1)), False, ""),
        (lambda: "", True, ""),
    ],
)
def test_the_worker_warns_before_the_secret_expires(
    create: Callable[[], str], enabled: bool, message: str, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    secret = create()
    auth_config(providers={"apple": Provider(enabled=enabled, client_ids=("c",), secret=Secret(secret))})
    with caplog.at_level(logging.WARNING):
        tasks.warn_of_apple_secret()
    assert [message in record.message for record in caplog.records] == ([True] if message else [])
    assert not secret or secret not in caplog.text
