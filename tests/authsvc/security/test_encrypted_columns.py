"""Encrypted columns: reencryption on use and by command, and logs about missing keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.core.management import CommandError, call_command
from django.db import transaction
from django.db.models import Model
from django.utils import timezone

from accounts.models import Factor, FactorStatus, FactorType, User
from authsvc.conf import Secret
from authsvc.diagnostics.database import DatabaseDiagnostic
from authsvc.diagnostics.registry import CheckOutcome, DiagnosticContext
from authsvc.security import crypto, encrypted_columns, encryption
from tests import factories
from tests.concurrency import run_in_own_connection, wait_for_lock_waiters
from tests.conftest import Api, ChangeConfig
from tests.live.servers import LiveServer
from tokens.models import Session

pytestmark = pytest.mark.django_db

KEYS = {name: Secret(crypto.generate_key()) for name in ("old", "new")}
Encrypt = Callable[..., Any]


@pytest.fixture
def encrypt_with(auth_config: ChangeConfig) -> Encrypt:
    def choose(key_id: str, *, key_ids: tuple[str, ...] = ("old", "new")) -> None:
        auth_config(
            database={
                "encrypt": True,
                "encryption_key_id": key_id,
                "encryption_key": KEYS[key_id],
                "decryption_keys": {name: KEYS[name] for name in key_ids},
            }
        )

    return choose


def make_factor(user: User, secret: str) -> Factor:
    factor_id = uuid4()
    return Factor.objects.create(
        id=factor_id,
        user=user,
        factor_type=FactorType.TOTP,
        status=FactorStatus.VERIFIED,
        secret=encryption.encrypt(secret, bound_to=factor_id),
        created_at=timezone.now(),
        updated_at=timezone.now(),
    )


def column(model: type[Model]) -> encrypted_columns.EncryptedColumn:
    return next(column for column in encrypted_columns.columns() if column.table == model._meta.db_table)


def texts() -> dict[str, list[tuple[str, str]]]:
    """Column → key and text of every value."""
    stored = {
        "password": list(User.objects.order_by("id").values_list("id", "password")),
        "key": list(Session.objects.order_by("id").values_list("id", "refresh_token_hmac_key")),
        "secret": list(Factor.objects.order_by("id").values_list("id", "secret")),
    }
    return {
        name: [
            (encryption.key_id(text or ""), encryption.decrypt(text or "", bound_to=row_id)) for row_id, text in values
        ]
        for name, values in stored.items()
    }


def reencrypt() -> str:
    printed = StringIO()
    call_command("reencrypt", stdout=printed)
    return printed.getvalue()


def test_the_command_reencrypts_plain_values_and_those_of_old_keys(encrypt_with: Encrypt) -> None:
    plain = factories.make_session()
    make_factor(plain.user, "plain secret")
    encrypt_with("old")
    make_factor(factories.make_session().user, "old secret")
    before = texts()
    assert {key for values in before.values() for key, _ in values} == {"", "old", encryption.DERIVED_KEY_ID}
    encrypt_with("new")

    output = reencrypt()

    after = texts()
    assert {key for values in after.values() for key, _ in values} == {"new"}
    assert {name: [text for _, text in values] for name, values in after.items()} == {
        name: [text for _, text in values] for name, values in before.items()
    }
    assert output.splitlines() == [
        "sessions.refresh_token_hmac_key: 2 encrypted, 0 unreadable",
        "users.encrypted_password: 2 encrypted, 0 unreadable",
        "mfa_factors.secret: 2 encrypted, 0 unreadable",
        "mfa_challenges.otp_code: 0 encrypted, 0 unreadable",
        "custom_oauth_providers.client_secret: 0 encrypted, 0 unreadable",
        "webhook_endpoints.secret: 0 encrypted, 0 unreadable",
        "webhook_endpoints.previous_secret: 0 encrypted, 0 unreadable",
    ]
    assert "users.encrypted_password: 0 encrypted" in reencrypt()


def test_users_without_a_password_are_unchanged(encrypt_with: Encrypt) -> None:
    factories.make_user(password="")
    factories.make_user()
    User.objects.filter(password="").update(password=None)
    encrypt_with("new")
    reencrypt()
    assert User.objects.filter(password=None).count() == 1


def test_undecryptable_values_are_kept_and_reported(encrypt_with: Encrypt) -> None:
    encrypt_with("old")
    signed_in = factories.make_session()
    stored = Session.objects.get().refresh_token_hmac_key
    encrypt_with("new", key_ids=("new",))
    with pytest.raises(CommandError, match="keys that are missing in"):
        reencrypt()
    assert Session.objects.get().refresh_token_hmac_key == stored
    assert signed_in.session.id == Session.objects.get().id


def test_without_encryption_the_command_encrypts_keys_only() -> None:
    made = factories.make_session()
    key = crypto.generate_key()
    Session.objects.filter(id=made.session.id).update(refresh_token_hmac_key=key)
    before = texts()
    output = reencrypt().splitlines()
    assert output[1:] == [
        "sessions.refresh_token_hmac_key: 1 encrypted, 0 unreadable",
        "webhook_endpoints.secret: 0 encrypted, 0 unreadable",
        "webhook_endpoints.previous_secret: 0 encrypted, 0 unreadable",
    ]
    after = texts()
    assert after.pop("key") == [(encryption.DERIVED_KEY_ID, key)]
    assert after == {name: values for name, values in before.items() if name != "key"}


@pytest.mark.django_db(transaction=True)
def test_a_concurrently_changed_value_is_kept(encrypt_with: Encrypt) -> None:
    user = factories.make_user()
    encrypt_with("new")

    def reencrypt_passwords() -> encrypted_columns.ReencryptionResult:
        return encrypted_columns.reencrypt(column(User), report_progress=lambda _: None)

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            User.objects.update(password="another")
            reencrypting = threads.submit(run_in_own_connection, reencrypt_passwords)
            wait_for_lock_waiters(1)  # it has read the value before the change
        outcome = reencrypting.result()
    assert (outcome.reencrypted, outcome.unreadable) == (0, 0)
    assert User.objects.get(id=user.id).password == "another"


def test_many_rows_take_several_batches(encrypt_with: Encrypt) -> None:
    encrypt_with("old")
    user, now = factories.make_user(), timezone.now()
    ids = [uuid4() for _ in range(501)]
    Session.objects.bulk_create(
        Session(
            id=session_id,
            user=user,
            created_at=now,
            refresh_token_hmac_key=encryption.encrypt("key", bound_to=session_id),
        )
        for session_id in ids
    )
    encrypt_with("new")
    batches: list[int] = []
    outcome = encrypted_columns.reencrypt(column(Session), report_progress=batches.append)
    assert (outcome.reencrypted, batches) == (501, [500, 1])


def test_a_sign_in_reencrypts_the_password_with_the_current_key(api: Api, encrypt_with: Encrypt) -> None:
    encrypt_with("old")
    user = factories.make_user(password="correct horse 1")
    encrypt_with("new")
    path, credentials = "/token?grant_type=password", {"email": user.email, "password": "correct horse 1"}
    stored = User.objects.get().password or ""
    assert encryption.key_id(stored) == "old"
    assert api.post(path, {**credentials, "password": "wrong horse 1"}).status_code == 400
    assert User.objects.get().password == stored
    assert api.post(path, credentials).status_code == 200
    assert encryption.key_id(User.objects.get().password or "") == "new"
    assert api.post(path, credentials).status_code == 200


def test_unknown_keys_are_logged_once_per_column(encrypt_with: Encrypt, caplog: pytest.LogCaptureFixture) -> None:
    encrypt_with("old")
    for _ in range(3):
        factories.make_session()
    encrypt_with("new")
    with caplog.at_level(logging.WARNING):
        encrypted_columns.warn_about_unknown_keys()
        assert not caplog.records
        encrypt_with("new", key_ids=("new",))
        encrypted_columns.warn_about_unknown_keys()
    assert [(vars(record)["column"], vars(record)["key_id"]) for record in caplog.records] == [
        ("sessions.refresh_token_hmac_key", "old"),
        ("users.encrypted_password", "old"),
    ]
    context = DiagnosticContext(public_url="")
    [diagnosed] = [result for result in DatabaseDiagnostic().run(context) if result.subject == "encryption keys"]
    assert diagnosed.outcome == CheckOutcome.FAILURE
    assert "users.encrypted_password with old" in diagnosed.message


@pytest.mark.django_db(transaction=True)
def test_a_missing_key_is_logged_at_the_start(serve: Callable[..., LiveServer]) -> None:
    def with_key(name: str) -> dict[str, str]:
        key = KEYS[name].reveal()
        return {
            "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT": "true",
            "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID": name,
            "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY": key,
            "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS": f"{name}:{key}",
            "AUTH_MAILER_AUTOCONFIRM": "true",
        }

    first = serve(**with_key("old"))
    credentials = {"email": "a@example.com", "password": "correct horse 1"}
    assert requests.post(f"{first.url}/signup", json=credentials, timeout=60).status_code == 200
    assert "not configured" not in first.log.read_text()
    second = serve(**with_key("new"))
    assert second.log.read_text().count("values are encrypted with a key that is not configured") == 2
