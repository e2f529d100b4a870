"""`manage.py check --deploy`: each check has a unique id, warns until it is corrected, and is in the guide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from authsvc import conf
from authsvc.conf import Provider, Secret
from authsvc.conf.declaration import settings_of
from authsvc.diagnostics import deploy_checks
from tests.authsvc.conf.variables import MAIL, REQUIRED
from tests.conftest import ChangeConfig
from tests.live.servers import PROJECT

EVERY_NOTICE = frozenset(conf.NOTIFICATIONS)
SIGNING = ["sign", "verify"]
GITHUB = {"github": Provider(enabled=True)}
GOOD: dict[int, dict[str, Any]] = {
    1: {"jwt": {"keys": ({"kty": "EC", "key_ops": SIGNING}, {"kty": "oct", "key_ops": ["verify"]})}},
    2: {"jwt": {"secret": Secret("s" * 32)}},
    3: {"passwords": {"min_length": 15}},
    4: {"refresh": {"rotation_enabled": True, "allow_reuse": False}},
    5: {"jwt": {"issuer": "https://auth.example.com"}},
    6: {"api": {"external_url": "https://auth.example.com"}},
    7: {"mailer": {"dev_inbox_enabled": False}},
    8: {"database": {"url": Secret("postgres://db/auth")}},
    9: {"api": {"trusted_proxies": ()}},
    10: {"providers": GITHUB, "federation": {"flow_binding_enabled": True}},
    11: {"breaches": {"enabled": True}},
    12: {"passwords": {"update_requires_current": True}},
    13: {"sessions": {"timebox": timedelta(days=30), "inactivity_timeout": timedelta(days=7)}},
    14: {"mailer": {"otp_exp": timedelta(minutes=10)}},
    15: {"codes": {"max_attempts": 10}},
    16: {"mailer": {"notifications": EVERY_NOTICE}},
    17: {"signup": {"strict_privacy_enabled": True}},
    18: {"database": {"encrypt": True}},
    19: {"console": {"allowed_networks": (ip_network("10.0.0.0/8"),)}},
    20: {"site": {"allow_list": ("https://app.example.com/in",)}},
    21: {"database": {"url": Secret("postgres://db/auth?sslmode=verify-full")}},
    22: {"signup": {"magic_link_enabled": False}},
}
BAD: dict[int, dict[str, Any]] = {
    1: {"jwt": {"keys": ({"kty": "oct", "key_ops": SIGNING}, {"kty": "EC", "key_ops": ["verify"]})}},
    2: {"jwt": {"secret": Secret("s" * 31)}},
    3: {"passwords": {"min_length": 14}},
    4: {"refresh": {"allow_reuse": True}},
    5: {"jwt": {"issuer": ""}},
    6: {"api": {"external_url": "http://auth.example.com"}},
    7: {"mailer": {"dev_inbox_enabled": True}},
    8: {"database": {"url": Secret("embedded:/srv/pg")}},
    9: {"api": {"trusted_proxies": (ip_network("10.0.0.0/8"),)}},
    10: {"providers": GITHUB, "federation": {"flow_binding_enabled": False}},
    11: {"breaches": {"enabled": False}},
    12: {"passwords": {"update_requires_current": False, "update_requires_reauthentication": True}},
    13: {"sessions": {"timebox": None}},
    14: {"mailer": {"otp_exp": timedelta(hours=1)}},
    15: {"codes": {"max_attempts": 0}},
    16: {"mailer": {"notifications": EVERY_NOTICE - {"phone_changed"}}},
    17: {"signup": {"strict_privacy_enabled": False}},
    18: {"database": {"encrypt": False}},
    19: {"console": {"enabled": True, "allowed_networks": ()}},
    20: {"site": {"allow_list": ("https://app[1-3].example.com/in",)}},
    21: {"database": {"url": Secret("postgres://db/auth")}},
    22: {"signup": {"magic_link_enabled": True}},
}


def ids() -> set[str]:
    return {str(message.id) for message in deploy_checks.check_security_settings()}


@pytest.mark.parametrize("check", deploy_checks.CHECKS, ids=lambda check: str(check.id))
def test_a_check_warns_until_its_setting_is_corrected(
    check: deploy_checks.DeployCheck, auth_config: ChangeConfig
) -> None:
    auth_config(**BAD[check.number])
    assert check.id in ids()
    auth_config(**GOOD[check.number])
    assert check.id not in ids()


def test_check_ids_are_unique() -> None:
    numbers = [check.number for check in deploy_checks.CHECKS]
    assert sorted(set(numbers)) == sorted(numbers)


def test_the_guide_lists_every_check() -> None:
    guide = (PROJECT / "docs" / "how-to" / "operations.md").read_text().splitlines()
    assert [row for row in guide if row.startswith("| `authsvc.W")] == [
        f"| `{check.id}` | {check.warning} | {check.source} | {check.hint} |" for check in deploy_checks.CHECKS
    ]


def test_missing_smtp_settings_cause_a_warning(auth_config: ChangeConfig) -> None:
    auth_config(signup={"magic_link_enabled": True, "email_enabled": False})
    assert "authsvc.W022" not in ids()


def test_missing_jwt_keys_cause_a_warning(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"keys": ()})
    assert "authsvc.W001" in ids()


@pytest.mark.parametrize("wildcard", ["*", "**", "?", "[a-z]"])
def test_wildcards_in_host_names_cause_a_warning(wildcard: str, auth_config: ChangeConfig) -> None:
    auth_config(site={"allow_list": (f"https://app.example.com/{wildcard}",)})
    assert "authsvc.W020" in ids()


def test_a_local_database_needs_no_encryption(auth_config: ChangeConfig) -> None:
    auth_config(database={"url": Secret("postgres:///auth?host=/run/postgresql")})
    assert "authsvc.W021" not in ids()
    assert settings.AUTH.database.url


@pytest.mark.parametrize(
    "database",
    [
        {
            "url": Secret("postgres://10.0.0.1/auth?sslmode=require"),
            "read_replica_url": Secret("postgres://10.0.0.2/auth"),
        },
        {"url": Secret("postgres://%2Frun%2Fpostgresql,10.0.0.1/auth")},
        {"url": Secret("postgres:///auth?hostaddr=10.0.0.1")},
    ],
    ids=["replica", "second host", "hostaddr"],
)
def test_every_server_needs_encryption(auth_config: ChangeConfig, database: dict[str, Secret]) -> None:
    auth_config(database=database)
    assert "authsvc.W021" in ids()


def test_libpq_may_know_the_encryption_from_the_environment(
    auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth_config(database={"url": Secret("postgres://db/auth")})
    assert "authsvc.W021" in ids()
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert "authsvc.W021" not in ids()


PUBLISHED = {"AUTH_JWT_SECRET": "put at least 32 random characters here"}
DOCUMENTS = ["README.md", "compose*.yaml", "Dockerfile", ".env.example", "docs/**/*.md", "deploy/**/*"]


def test_a_secret_from_the_documents_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "AUTH", conf.load_merged(REQUIRED | PUBLISHED))
    [error] = [message for message in deploy_checks.check_security_settings() if message.is_serious()]
    assert error.id == "authsvc.E001"
    assert error.msg == "AUTH_JWT_SECRET is an example from public documents."
    with pytest.raises(SystemCheckError, match=r"authsvc\.E001"):
        call_command("check", deploy=True)


def test_a_secret_from_the_documents_is_a_warning_at_start() -> None:
    config = conf.load_merged(REQUIRED | {"DATABASE_URL": "postgres://authsvc:a%20long%20password@db:5432/authsvc"})
    [warning] = [notice for notice in config.notices if notice.fields.get("setting") == "DATABASE_URL"]
    assert warning.level == "warning"
    assert "a%20long" not in warning.message


def test_every_secret_in_the_documents_is_known() -> None:
    secrets = {
        name
        for place in settings_of(conf.AuthConfig)
        if place.setting.is_secret
        for key in place.setting.keys or ("",)
        for name in place.setting.names_for(key)
    }
    documents = [file for pattern in DOCUMENTS for file in PROJECT.glob(pattern) if file.is_file()]
    shown = {example for file in documents for example in assignments(file.read_text()) if example[0] in secrets}
    assert {*PUBLISHED.items(), ("AUTH_SMTP_PASS", "the password at the mail server")} <= shown
    for name, value in shown:
        config = conf.load_merged({**REQUIRED, **MAIL, name: value})
        assert name in config.published_secrets, f"{name}={value} is not in PUBLISHED_SECRETS"


def assignments(text: str) -> Iterator[tuple[str, str]]:
    """The variables of a document that have a complete value; a URL needs a password."""
    for name, value in re.findall(r"\b([A-Z][A-Z0-9_]+)(?:=|: )([^\n`|\\]+)", text):
        example = value.strip(" '\"")
        is_url = "://" in example or example.startswith("embedded:")
        if (
            example
            and example[0] not in "…${["
            and "<" not in example
            and "${" not in example
            and not (is_url and urlsplit(example).password in (None, "…"))
        ):
            yield name, example
