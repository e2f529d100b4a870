"""The commands that create, change and delete users, and the one that prints service tokens."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_session, make_user
from tests.observations import audit_payloads
from tests.tokens.token_requests import read_claims
from tokens.jwt import access_tokens, signing_keys
from tokens.models import Session

pytestmark = pytest.mark.django_db

EMAIL = "ann@example.com"


def run(*arguments: str, **options: Any) -> str:
    """The output of the command."""
    printed = io.StringIO()
    call_command(*arguments, stdout=printed, stderr=io.StringIO(), **options)
    return printed.getvalue().strip()


def error_of(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    assert raised.value.returncode == 1
    return str(raised.value)


def signs_in(api: Api, password: str, email: str = EMAIL) -> bool:
    return api.post("/token?grant_type=password", {"email": email, "password": password}).status_code == 200


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\nand what is no part of it\n", encoding="utf-8")
    return str(path)


# createuser


def test_createuser_makes_an_unconfirmed_account_and_sends_nothing(mailbox: Mailbox) -> None:
    user = User.objects.get(id=run("createuser", "Ann@Example.com", PASSWORD))
    assert (user.email, user.role, user.email_confirmed_at) == (EMAIL, "authenticated", None)
    assert user.password is not None
    assert hashing.verify_password(PASSWORD, user.password)
    assert mailbox.emails == []
    (entry,) = audit_payloads()
    assert (entry["action"], entry["actor_username"], entry["traits"]["user_id"]) == (
        "user_signedup",
        "manage.py",
        str(user.id),
    )


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        ((), "authenticated"),
        (("support",), "support"),
        (("--admin",), "admin"),
        (("support", "--admin"), "support"),
    ],
)
def test_createuser_uses_the_first_configured_role(arguments: tuple[str, ...], role: str) -> None:
    assert User.objects.get(id=run("createuser", EMAIL, PASSWORD, *arguments)).role == role


@pytest.mark.parametrize("by_setting", [True, False])
def test_createuser_confirms_with_the_option(api: Api, auth_config: ChangeConfig, by_setting: bool) -> None:
    auth_config(mailer={"autoconfirm": by_setting})
    run("createuser", EMAIL, PASSWORD, *([] if by_setting else ["--confirm"]))
    assert signs_in(api, PASSWORD)


def test_createuser_reads_the_password_from_standard_input(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    run("createuser", EMAIL, "-", "--confirm")
    assert signs_in(api, PASSWORD)


def test_createuser_creates_users_of_other_audiences() -> None:
    assert User.objects.get(id=run("createuser", EMAIL, PASSWORD, "--aud", "elsewhere")).aud == "elsewhere"


@pytest.mark.parametrize(
    ("email", "password", "text"),
    [
        ("xx", PASSWORD, "Unable to validate email address: invalid format"),
        ("", PASSWORD, "Cannot create a user without either an email or phone"),
        (EMAIL, PASSWORD, "A user with this email address has already been registered"),
        ("new@example.com", "short", "Password should be at least 6 characters."),
        ("new@example.com", "", "Password should be at least 6 characters."),
        ("new@example.com", "not UTF-8: \udcff", "the arguments and the output must be UTF-8"),
    ],
)
def test_createuser_rejects_invalid_values(email: str, password: str, text: str) -> None:
    make_user(email=EMAIL)
    assert error_of("createuser", email, password) == text
    assert User.objects.count() == 1


# deleteuser


@pytest.mark.parametrize("by", ["email", "id", "phone"])
def test_deleteuser_deletes_permanently(by: str) -> None:
    user = make_user(email=EMAIL, phone="15550001234")
    session = make_session(user).session
    run("deleteuser", str(getattr(user, by)))
    assert not User.objects.exists()
    assert not Session.objects.filter(id=session.id).exists()
    assert audit_payloads()[-1]["traits"]["user_email"] == EMAIL


def test_deleteuser_applies_the_audience_except_for_ids() -> None:
    user = make_user(email=EMAIL, audience="elsewhere")
    assert error_of("deleteuser", EMAIL) == "user not found"
    run("deleteuser", EMAIL, "--aud", "elsewhere")
    assert not User.objects.filter(id=user.id).exists()
    other = make_user(audience="elsewhere")
    run("deleteuser", str(other.id))
    assert not User.objects.exists()


def test_deleteuser_rejects_an_ambiguous_user() -> None:
    twins = [make_user(email=EMAIL), make_user(email="other@example.com")]
    User.objects.filter(id=twins[1].id).update(is_sso_user=True, email=EMAIL)
    error = error_of("deleteuser", EMAIL)
    assert error == f"several users match, specify an id: {twins[0].id}, {twins[1].id}"
    assert User.objects.count() == 2


# createsuperuser


def test_createsuperuser_makes_a_confirmed_operator(api: Api, password_file: str) -> None:
    run("createsuperuser", "--email", "Ann@Example.com", "--password-file", password_file)
    user = User.objects.get(email=EMAIL)
    assert user.role == "svc_admin"
    assert user.email_confirmed_at is not None
    token = api.post("/token?grant_type=password", {"email": EMAIL, "password": PASSWORD}).json()["access_token"]
    assert api.get("/admin/users", bearer=token).status_code == 200


def test_createsuperuser_takes_values_from_variables_and_never_prompts(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_email = "--noinput needs --email or the variable DJANGO_SUPERUSER_EMAIL"
    needs_password = "--noinput needs --password-file or the variable DJANGO_SUPERUSER_PASSWORD"
    assert error_of("createsuperuser", "--noinput") == needs_email
    monkeypatch.setenv("DJANGO_SUPERUSER_EMAIL", EMAIL)
    assert error_of("createsuperuser", "--noinput") == needs_password
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    run("createsuperuser", "--noinput")
    assert signs_in(api, PASSWORD)


def test_createsuperuser_changes_an_existing_user_only_with_promote(api: Api, password_file: str) -> None:
    user = make_user(email=EMAIL, password="somebody else's 1", confirmed=False)
    old = make_session(user).session
    arguments = ("createsuperuser", "--email", EMAIL, "--password-file", password_file)
    assert error_of(*arguments) == "a user with this address exists; use --promote to make the user an operator"
    user.refresh_from_db()
    assert user.role == "authenticated"

    run(*arguments, "--promote")

    user.refresh_from_db()
    assert user.role == "svc_admin"
    assert signs_in(api, PASSWORD)
    assert not signs_in(api, "somebody else's 1")
    assert not Session.objects.filter(id=old.id).exists()


def test_createsuperuser_applies_the_password_policy(auth_config: ChangeConfig, password_file: str) -> None:
    auth_config(passwords={"min_length": 60})
    error = error_of("createsuperuser", "--email", EMAIL, "--password-file", password_file)
    assert error == "Password should be at least 60 characters."
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--email", "xx"), "Unable to validate email address: invalid format"),
        (("--email", EMAIL), "a terminal is required to enter a password; use --password-file instead"),
        ((), "a terminal is required for confirmation"),
        (
            ("--email", EMAIL, "--role", "support"),
            "support is not an operator role: use one of service_role, svc_admin with --role",
        ),
        (
            ("--email", EMAIL, "--password-file", "/nowhere/at/all"),
            "cannot read /nowhere/at/all: [Errno 2] No such file or directory: '/nowhere/at/all'",
        ),
    ],
)
def test_createsuperuser_reports_missing_values(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert error_of("createsuperuser", *arguments) == text
    assert not User.objects.exists()


def test_createsuperuser_reads_a_password_from_standard_input(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    run("createsuperuser", "--email", EMAIL, "--password-file", "-")
    assert signs_in(api, PASSWORD)


def test_createsuperuser_rejects_an_empty_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert error_of("createsuperuser", "--email", EMAIL, "--password-file", "-") == "the password is empty"


# changepassword


def test_changepassword_ends_all_sessions(api: Api, password_file: str) -> None:
    user = make_user(email=EMAIL, password="the old one 1")
    session = make_session(user).session
    run("changepassword", EMAIL, "--password-file", password_file)
    assert signs_in(api, PASSWORD)
    assert not signs_in(api, "the old one 1")
    assert not Session.objects.filter(id=session.id).exists()


def test_changepassword_rejects_an_unknown_user(password_file: str) -> None:
    assert error_of("changepassword", EMAIL, "--password-file", password_file) == "user not found"


# mint_token


def test_mint_token_prints_an_administrator_token(api: Api) -> None:
    token = run("mint_token", "--role", "service_role", "--expires", "1h")
    assert api.get("/admin/users", bearer=token).status_code == 200
    claims = read_claims(token)
    assert sorted(claims) == ["exp", "iat", "role"]
    assert claims["exp"] - claims["iat"] == 3600
    assert abs(claims["iat"] - timezone.now().timestamp()) < 60


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "HS256"])
def test_mint_token_signs_with_the_configured_key(auth_config: ChangeConfig, algorithm: str) -> None:
    key = signing_keys.generate(algorithm=algorithm)
    auth_config(jwt={"keys": (key,), "issuer": "https://auth.example.com"})
    token = run("mint_token", "--role", "svc_admin", "--expires", "720h")
    read = access_tokens.decode(token, at=timezone.now())
    assert (read.role, read.raw["iss"]) == ("svc_admin", "https://auth.example.com")
    assert signing_keys.current().signing.alg == algorithm


def test_mint_token_warns_of_a_role_without_rights() -> None:
    heard = io.StringIO()
    call_command("mint_token", role="anon", expires="1h", stdout=io.StringIO(), stderr=heard)
    assert heard.getvalue() == "anon is not in AUTH_JWT_ADMIN_ROLES: this service will reject the token\n"


@pytest.mark.parametrize(
    ("role", "expires", "text"),
    [
        ("service_role", "24", "--expires: numbers need units (ns, us, ms, s, m, h), as in 1h30m"),
        ("service_role", "0", "--expires: the lifetime must be at least one second"),
        ("service_role", "-1h", "--expires: the lifetime must be at least one second"),
        ("", "1h", "--role: a role is required"),
    ],
)
def test_mint_token_reports_invalid_options(role: str, expires: str, text: str) -> None:
    assert error_of("mint_token", f"--role={role}", f"--expires={expires}") == text
