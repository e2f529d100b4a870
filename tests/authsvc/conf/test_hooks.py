"""Settings of hooks that prevent the start, and those that only warn."""

from __future__ import annotations

from datetime import timedelta

import pytest

from authsvc.conf.sections.hooks import HOOKS
from tests.authsvc.conf.variables import REQUIRED, load, problems

SECRET = "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
KEY_PAIR = "v1a,whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=:whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
URI = "AUTH_HOOK_SEND_SMS_URI"
SECRETS = "AUTH_HOOK_SEND_SMS_SECRETS"


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("http://example.org/x", "only localhost, 127.0.0.1, and ::1 are supported with http"),
        ("ftp://h/x", "only postgres hooks and HTTPS functions are supported at the moment"),
        ("pg-functions://p/auth", "URI path does not contain enough parts"),
        ("pg-functions://p/a-b/f", "invalid schema name: a-b"),
        ("pg-functions://p/auth/1f", "invalid table name: 1f"),
        ("python:module", "python hooks are named python:<module>:<callable>"),
        ("https://[", "invalid URL"),
        ("https:///x", "invalid URL"),
    ],
)
def test_uris_that_cannot_be_used(uri: str, problem: str) -> None:
    assert problems(REQUIRED | {URI: uri}) == [f"{URI}: {problem}"]


@pytest.mark.parametrize(
    "uri",
    [
        "HTTPS://h/x",
        "http://localhost:1/x",
        "http://127.0.0.1/",
        "http://[::1]:8000/",
        "http://host.docker.internal:8000/x",
        "pg-functions://p/auth/f/further",
        "python:team.hooks:add_claims",
    ],
)
def test_uris_that_can_be_used(uri: str) -> None:
    assert load(**{URI: uri}).hooks["send_sms"].uri == uri


@pytest.mark.parametrize(
    ("uri", "transport", "seconds"),
    [("HTTPS://h/x", "http", 5), ("PG-Functions://p/a/f", "pg-functions", 2), ("python:a.b:c", "python", 2)],
)
def test_transports_and_their_timeouts(uri: str, transport: str, seconds: int) -> None:
    hook = load(**{URI: uri}).hooks["send_sms"]
    assert (hook.transport, hook.time_limit) == (transport, timedelta(seconds=seconds))


def test_an_enabled_hook_needs_a_uri() -> None:
    [problem] = problems(REQUIRED | {"AUTH_HOOK_SEND_SMS_ENABLED": "true"})
    assert problem == f"conf: {URI} is required when the hook is enabled"


@pytest.mark.parametrize(
    "secrets",
    ["tommy", f"{SECRET}|tommy", "v1,whsec_" + "=" * 32, f"{SECRET} ", "v1a,whpk_" + "A" * 44 + ":whsk_" + "A" * 48],
)
def test_secrets_that_cannot_sign(secrets: str) -> None:
    assert problems(REQUIRED | {URI: "https://h/x", SECRETS: secrets}) == [f"{SECRETS}: invalid secret format"]


def test_several_secrets() -> None:
    hook = load(**{URI: "https://h/x", SECRETS: f"{SECRET}|{KEY_PAIR}|"}).hooks["send_sms"]
    assert [secret.reveal() for secret in hook.secrets] == [SECRET, KEY_PAIR]
    assert "AAEC" not in repr(hook)


@pytest.mark.parametrize("timeout", ["99ms", "31s", "-1s"])
def test_timeouts_out_of_range(timeout: str) -> None:
    [problem] = problems(REQUIRED | {"AUTH_HOOK_SEND_SMS_TIMEOUT": timeout})
    assert "must be between 100ms and 30s" in problem


def warnings(**variables: str) -> list[str]:
    notices = load(**variables).notices
    return [notice.message for notice in notices if "hook" in notice.message]


def test_an_unsigned_hook_warns() -> None:
    settings = {"AUTH_HOOK_SEND_SMS_ENABLED": "true", URI: "https://h/x"}
    assert warnings(**settings) == ["hook SEND_SMS is not signed"]
    assert warnings(**settings, **{SECRETS: SECRET}) == []


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_protects_warns_if_it_fails_open(name: str) -> None:
    prefix = f"AUTH_HOOK_{name.upper()}"
    texts = warnings(
        **{f"{prefix}_ENABLED": "true", f"{prefix}_URI": "pg-functions://p/a/f", f"{prefix}_ON_FAILURE": "open"}
    )
    expected = [f"a failure of hook {name.upper()} lifts the rules that it enforces"]
    assert texts == ([] if name in ("send_email", "send_sms", "after_user_created") else expected)
