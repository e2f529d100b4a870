"""Apple's client secret: what it holds, the command that makes it, and the warning before it ends."""

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
from oauthproviders.providers import apple_client_secret
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


def secret(*, ends: timedelta, at: datetime | None = None) -> str:
    now = at or datetime.now(UTC)
    return apple_client_secret.create(
        team_id="TEAM123456",
        key_id="KEY1234567",
        client_id="com.example.web",
        private_key=pem(KEY),
        lifetime=ends,
        at=now,
    )


def test_the_secret_says_who_asks_whom_and_for_how_long() -> None:
    made = secret(ends=timedelta(days=180), at=AT)
    assert jwt.get_unverified_header(made) == {"alg": "ES256", "typ": "JWT", "kid": "KEY1234567"}
    begins = int(AT.timestamp())
    options: Any = {"verify_exp": False, "verify_iat": False}
    assert jwt.decode(made, KEY.public_key(), ["ES256"], options, audience="https://appleid.apple.com") == {
        "iss": "TEAM123456",
        "iat": begins,
        "exp": begins + 180 * 86400,
        "aud": "https://appleid.apple.com",
        "sub": "com.example.web",
    }
    assert apple_client_secret.expires_at(made) == AT + timedelta(days=180)


@pytest.mark.parametrize(
    "private_key",
    ["", "no key", pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)), pem(KEY)[:-60]],
    ids=["empty", "text", "RSA", "cut off"],
)
def test_another_key_makes_no_secret(private_key: str) -> None:
    with pytest.raises(ValueError, match="not an elliptic-curve private key"):
        apple_client_secret.create(
            team_id="t", key_id="k", client_id="c", private_key=private_key, lifetime=timedelta(days=1), at=AT
        )


@pytest.mark.parametrize("text", ["", "secret", "a.b.c", jwt.encode({}, "k" * 32), jwt.encode({"sub": "x"}, "k" * 32)])
def test_what_is_no_such_secret_has_no_end(text: str) -> None:
    assert apple_client_secret.expires_at(text) is None


# The command

OPTIONS = ("--team-id", "TEAM123456", "--key-id", "KEY1234567")


def run(*arguments: str) -> tuple[str, str]:
    """What the command prints, and what it tells the operator beside that."""
    printed, told = io.StringIO(), io.StringIO()
    call_command("apple_secret", *OPTIONS, *arguments, stdout=printed, stderr=told)
    return printed.getvalue(), told.getvalue()


def test_the_command_prints_the_secret_and_tells_when_it_ends(key_file: str, auth_config: ChangeConfig) -> None:
    auth_config(providers={"apple": Provider(client_ids=("com.example.web", "com.example.ios"))})
    printed, told = run("--key-file", key_file)
    assert printed.count("\n") == 1
    said = jwt.decode(printed.strip(), KEY.public_key(), ["ES256"], audience="https://appleid.apple.com")
    assert (said["sub"], said["iss"], said["exp"] - said["iat"]) == ("com.example.web", "TEAM123456", 4380 * 3600)
    assert f"{datetime.fromtimestamp(said['exp'], UTC):%Y-%m-%d}" in told


def test_the_command_takes_another_client_and_a_shorter_life(key_file: str) -> None:
    printed, _ = run("--key-file", key_file, "--client-id", "com.example.other", "--expires", "1h")
    said = jwt.decode(printed.strip(), KEY.public_key(), ["ES256"], audience="https://appleid.apple.com")
    assert (said["sub"], said["exp"] - said["iat"]) == ("com.example.other", 3600)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--client-id", "c", "--expires", "0"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires", "4383h"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires=-1h"), "--expires: Apple accepts a lifetime"),
        (("--client-id", "c", "--expires", "half a year"), "--expires: "),
        ((), "--client-id: required, because AUTH_EXTERNAL_APPLE_CLIENT_ID is empty"),
    ],
)
def test_the_command_refuses_what_apple_would(
    arguments: tuple[str, ...], says: str, key_file: str, auth_config: ChangeConfig
) -> None:
    auth_config(providers={"apple": Provider()})
    with pytest.raises(CommandError, match=says):
        run("--key-file", key_file, *arguments)


@pytest.mark.parametrize(
    "content", [None, b"", b"text", b"\xff\x00", pem(KEY).encode()[:100]], ids=["none", "empty", "text", "bytes", "cut"]
)
def test_the_command_says_what_is_wrong_with_the_file(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key.p8"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=r"^--key-file: ") as refused:
        run("--key-file", str(path), "--client-id", "c")
    assert "\n" not in str(refused.value)


# The warning


@pytest.mark.parametrize(
    ("make", "enabled", "says"),
    [
        (lambda: secret(ends=timedelta(days=31)), True, ""),
        (lambda: secret(ends=timedelta(days=29)), True, "expires soon"),
        (lambda: secret(ends=timedelta(seconds=-1)), True, "has expired"),
        (lambda: "not-a-token", True, "is not an output"),
        (lambda: secret(ends=timedelta(days=1)), False, ""),
        (lambda: "", True, ""),
    ],
)
def test_a_secret_that_ends_is_warned_of_while_there_is_time(
    make: Callable[[], str], enabled: bool, says: str, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    made = make()
    auth_config(providers={"apple": Provider(enabled=enabled, client_ids=("c",), secret=Secret(made))})
    with caplog.at_level(logging.WARNING):
        tasks.warn_of_apple_secret()
    assert [says in record.message for record in caplog.records] == ([True] if says else [])
    assert not made or made not in caplog.text
