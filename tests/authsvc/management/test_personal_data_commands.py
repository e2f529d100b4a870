"""Export and erasure of personal data, checked against the whole database."""

from __future__ import annotations

import hashlib
import io
import itertools
import re
import secrets
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

from accounts.models import (
    Factor,
    FactorChallenge,
    FailedAttempts,
    OperatorNote,
    Passkey,
    PasskeyChallenge,
    RecoveryCode,
    User,
)
from accounts.users import queries
from authsvc import audit, messaging, personal_data
from authsvc.audit import erasure
from authsvc.caller import Caller
from authsvc.db.sql import namespaced
from authsvc.messaging import Email, EmailType
from authsvc.models import AuditLogEntry
from authsvc.personal_data import DataSubject
from authsvc.security import rate_limits
from hooks.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from hooks.webhooks import queries as queries_of_webhooks
from mailer.models import Attempt
from oauthserver.models import DeviceAuthorization, OAuthAuthorization, OAuthClient, OAuthConsent
from tests.factories import (
    AUDIENCE,
    make_audit_entries,
    make_factor,
    make_flow,
    make_legacy_tokens,
    make_one_time_token,
    make_session,
)
from tests.factories import make_user as make_plain_user
from tokens.models import TokenType
from tokens.sessions import impersonation

pytestmark = pytest.mark.django_db

EMAIL, PHONE, NAME = "ann@example.com", "15550001234", "Ann Example"
CODE = "918273"
ADDRESS = "203.0.113.77"
TRAIL = "audit_log_entries"
ROWS_OF_USER = {
    "users": 1,
    "identities": 1,
    "mfa_factors": 1,
    "mfa_challenges": 1,
    "mfa_recovery_codes": 1,
    "operator_notes": 1,
    "failed_attempts": 1,
    "webauthn_credentials": 1,
    "webauthn_challenges": 1,
    "sessions": 2,
    "mfa_amr_claims": 2,
    "refresh_tokens": 2,
    "one_time_tokens": 1,
    "flow_state": 1,
    "impersonation_links": 1,
    "oauth_consents": 1,
    "oauth_authorizations": 1,
    "oauth_device_authorizations": 1,
    "messages": 1,
    "message_attempts": 1,
    "rate_limits": 2,
    "webhook_events": 1,
    "webhook_deliveries": 1,
}
"""Table → rows of the user that `make_user` stores."""


@pytest.fixture(autouse=True)
def empty_queue() -> None:
    """Empty the queue, which rollbacks of other tests do not cover."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")


def make_bob() -> User:
    return make_user("bob@example.com", "15550009999", "Bob Example", address="203.0.113.88")


def make_user(email: str = EMAIL, phone: str = PHONE, name: str = NAME, *, address: str = ADDRESS) -> User:
    """A user with a row in every table that has rows of users."""
    user = make_plain_user(email=email, phone=phone, data={"full_name": name})
    signed_in = make_session(user)
    make_legacy_tokens(user)
    factor = make_factor(user, secret="totp-secret", friendly_name=f"the phone of {name}", phone=phone)
    make_rows_about_factors(user, factor, address=address)
    make_one_time_token(user, TokenType.RECOVERY)
    make_flow(user, provider_access_token="token-at-the-provider")
    at = timezone.now()
    make_rows_of_a_client(user)
    make_webhook(user)
    impersonation.create_link(user.id, operator_session_id=uuid4(), reason=f"{name} called", at=at)
    row = queries.get(user.id)
    assert row is not None
    record, caller = row, Caller(address=address, audience=AUDIENCE)
    with transaction.atomic():
        audit.record(audit.Action.LOGIN, actor=record, caller=caller, at=at, traits={"provider": "email"})
        unenrolled = {"factor_id": str(uuid4()), "factor_status": "verified", "session_id": str(signed_in.session.id)}
        audit.record(audit.Action.FACTOR_UNENROLLED, actor=record, caller=caller, at=at, traits=unenrolled)
        named = {"user_id": str(user.id), "user_email": email, "user_phone": ""}
        administrator = audit.Administrator(role="service_role")
        audit.record(audit.Action.INVITED, actor=administrator, caller=caller, at=at, traits=named)
        variables = {"Token": CODE, "ConfirmationURL": f"http://x/?token={CODE}"}
        messaging.send(Email(type=EmailType.RECOVERY, to=email, variables=variables, user_id=user.id))
    Attempt.objects.create(
        message_id=uuid4(), channel="email", kind="recovery", user_id=user.id, attempt=1, outcome="delivered"
    )
    rate_limits.allow_once(group="passwordless", key=email, interval=timedelta(hours=1))
    return user


def make_rows_about_factors(user: User, factor: Factor, *, address: str) -> None:
    at = timezone.now()
    FactorChallenge.objects.create(factor=factor, created_at=at, ip_address=address, otp_code="texted-code")
    RecoveryCode.objects.create(user=user, code_hash="recovery-digest", created_at=at)
    FailedAttempts.objects.create(user_id=user.id, attempts=1, started_at=at, updated_at=at)
    Passkey.objects.create(
        user=user, credential_id=user.id.bytes, public_key=b"key", friendly_name=f"key of {user.email}"
    )
    PasskeyChallenge.objects.create(
        user=user, challenge_type="registration", session_data={"challenge": "ceremony"}, expires_at=at
    )
    OperatorNote.objects.create(user=user, author="op@example.com", text=f"Called from {user.phone}", created_at=at)
    rate_limits.allow_once(group="WrongFactorCode", key=f"{user.id}/{factor.id}", interval=timedelta(hours=1))


def make_rows_of_a_client(user: User) -> None:
    at = timezone.now()
    client = OAuthClient.objects.create(
        registration_type="manual",
        redirect_uris="https://client.example.com/cb",
        grant_types="authorization_code",
        token_endpoint_auth_method="client_secret_basic",
    )
    OAuthConsent.objects.create(user=user, client=client, scopes="email", granted_at=at)
    OAuthAuthorization.objects.create(
        authorization_id=secrets.token_hex(16),
        client=client,
        user=user,
        redirect_uri=client.redirect_uris,
        scope="email",
        login_hint=user.email,
        expires_at=at + timedelta(minutes=10),
    )
    DeviceAuthorization.objects.create(
        device_code_hash=secrets.token_hex(32),
        user_code_hash=secrets.token_hex(32),
        client=client,
        user=user,
        scope="email",
        poll_interval=5,
        expires_at=at + timedelta(minutes=10),
    )


def make_webhook(user: User) -> None:
    """A delivered event of the user."""
    at = timezone.now()
    endpoint = WebhookEndpoint.objects.create(url="https://hooks.example.com", event_types=["*"], secret="whsec_")
    body = orjson.dumps({"data": {"user": {"id": str(user.id), "email": user.email}}})
    event_id = uuid4()
    queries_of_webhooks.insert_event(
        event_id=event_id, type="user.created", user_id=user.id, head=b'{"sequence":', tail=b"," + body[1:], at=at,
        is_fanned_out=True,
    )  # fmt: skip
    delivery = WebhookDelivery.objects.create(
        event_id=event_id, endpoint=endpoint, type="user.created", user_id=user.id, sequence=1, status="succeeded"
    )
    WebhookAttempt.objects.create(
        delivery=delivery, attempt=1, started_at=at, duration_ms=1, status=200, response_head=f"Hello {user.email}"
    )


def run(*arguments: str) -> str:
    printed = io.StringIO()
    call_command(*arguments, stdout=printed, stderr=io.StringIO())
    return printed.getvalue()


def erase(*arguments: str) -> dict[str, Any]:
    return orjson.loads(run("erase_user", *arguments, "--yes"))  # type: ignore[no-any-return]


def tables_with(*texts: object) -> dict[str, int]:
    """Table → rows in which any of these texts occurs, in any column."""
    pattern = "|".join(re.escape(str(text)) for text in texts)
    with connection.cursor() as cursor:
        tables = {}
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT count(*) FROM "{table}" t WHERE t::text ~ %s', (pattern,))
            (number,) = cursor.fetchone()
            if number:
                tables[table] = number
        return tables


def waiting_for(email: str) -> int:
    """Messages in the queue, whose recipients are encrypted."""
    held = personal_data.sources
    person = DataSubject(id=uuid4(), addresses=frozenset({email}))
    return sum(1 for source in held for table, rows in source.export(person) if table == "messages" for _ in rows)


def payload_of(entry: AuditLogEntry) -> dict[str, Any]:
    assert isinstance(entry.payload, dict)
    return entry.payload


def trail() -> list[tuple[UUID, str, object]]:
    """The parts of the audit trail that an erasure keeps, without the entry that it adds."""
    entries = AuditLogEntry.objects.exclude(payload__action="user_deleted").order_by("id")
    return list(entries.values_list("id", "payload__action", "created_at"))


# Tables and columns


def _tables_of_users() -> set[str]:
    """The tables of all models with a column that refers to a user."""

    def names_a_user(model: type[Model]) -> bool:
        return any(
            (field.remote_field is not None and field.related_model is User)
            or field.attname in ("user_id", "linking_target_id")
            for field in model._meta.concrete_fields
        )

    # The console never writes the log table of Django's admin.
    ours = [model for model in apps.get_models() if not model.__module__.startswith("django.contrib.")]
    return {model._meta.db_table for model in ours if names_a_user(model)}


def test_every_table_with_user_data_has_a_source() -> None:
    person = DataSubject(id=uuid4())
    shown = {namespaced(table) for source in personal_data.sources for table, _ in source.export(person)}
    assert _tables_of_users() - shown == set(), "an app's personal_data.py must show and forget these"


def test_exports_omit_columns_with_credentials() -> None:
    user = make_user()
    suspicious = re.compile("hash|secret|token|password|key|credential|challenge|code|hmac")
    harmless = {"token_type", "challenge_type", "code_challenge_method", "email_change_confirm_status"}
    person = DataSubject(id=user.id, addresses=frozenset({EMAIL, PHONE}))
    shown = {
        (table, column)
        for source in personal_data.sources
        for table, rows in source.export(person)
        for row in rows
        for column in row
        if suspicious.search(column) and not column.endswith("_at") and column not in harmless
    }
    assert shown == {("rate_limits", "key"), ("rate_limits", "tokens"), ("sessions", "refresh_token_counter")}


# export_user


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by", ["id", "email", "phone"])
def test_an_export_contains_every_table_and_only_this_user(by: str) -> None:
    user = make_user()
    other = make_bob()
    document = orjson.loads(run("export_user", str(getattr(user, by))))
    assert document["user_id"] == str(user.id)
    assert {table: len(rows) for table, rows in document["held"].items()} == {**ROWS_OF_USER, TRAIL: 3}
    (shown,) = document["held"]["users"]
    assert (shown["email"], shown["raw_user_meta_data"]["full_name"]) == (EMAIL, NAME)
    (message,) = document["held"]["messages"]
    assert (message["kind"], message["to"], message["status"]) == ("recovery", EMAIL, "todo")
    text = orjson.dumps(document).decode()
    for strange in (other.id, other.email, other.phone, "Bob Example"):
        assert str(strange) not in text


@pytest.mark.django_db(transaction=True)
def test_an_export_contains_no_secret() -> None:
    user = make_user()
    secrets = [CODE, "totp-secret", "token-at-the-provider", user.password]
    secrets += ["texted-code", "recovery-digest", "ceremony"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT refresh_token_hmac_key FROM sessions WHERE refresh_token_hmac_key IS NOT NULL"
            " UNION ALL SELECT token FROM refresh_tokens UNION ALL SELECT token_hash FROM one_time_tokens"
            " UNION ALL SELECT link_hash FROM one_time_tokens UNION ALL SELECT auth_code FROM flow_state"
        )
        secrets += [secret for (secret,) in cursor.fetchall()]
    text = run("export_user", EMAIL)
    assert len(secrets) == 13
    assert [secret for secret in secrets if not secret or secret in text] == []


@pytest.mark.django_db(transaction=True)
def test_the_export_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    user = make_user()
    file = tmp_path / "ann.json"
    assert run("export_user", EMAIL, "-o", str(file)) == ""
    assert orjson.loads(file.read_bytes())["user_id"] == str(user.id)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(CommandError, match="File exists"):
        run("export_user", EMAIL, "-o", str(file))


@pytest.mark.django_db(transaction=True)
def test_export_rejects_an_unknown_user() -> None:
    with pytest.raises(CommandError, match="user not found"):
        run("export_user", EMAIL)


# erase_user


def test_an_erasure_keeps_only_pseudonymised_audit_entries() -> None:
    user = make_user()
    other = make_bob()
    of_other = tables_with(other.id, "bob@example.com")
    factor_id = Factor.objects.get(user=user).id
    before = trail()

    receipt = erase(EMAIL)

    assert tables_with(user.id, EMAIL, PHONE, NAME, factor_id, ADDRESS) == {}
    assert waiting_for(EMAIL) == 0
    assert trail() == before
    assert tables_with(other.id, "bob@example.com") == of_other
    assert waiting_for("bob@example.com") == 1
    assert receipt["removed"] == ROWS_OF_USER
    assert (receipt["rewritten"], receipt["left"], receipt["kept_id"]) == ({TRAIL: 4}, {}, False)


def test_notes_of_an_erased_operator_stay_without_the_name() -> None:
    operator, user = make_plain_user(email="op@staff.example"), make_plain_user()
    OperatorNote.objects.create(
        user=user, author_id=operator.id, author="op@staff.example", text="Called.", created_at=timezone.now()
    )
    name = erase("op@staff.example")["pseudonym"]
    assert list(OperatorNote.objects.values_list("author_id", "author", "text")) == [(None, name, "Called.")]


def test_pseudonyms_are_distinct_and_impersonal_values_are_kept() -> None:
    user = make_user()
    other = make_bob()
    name = erase(str(user.id))["pseudonym"]
    assert erase(str(other.id))["pseudonym"] != name
    entries = {payload_of(entry)["action"]: entry for entry in erasure.entries_of(UUID(name))}
    assert {entry.ip_address for entry in entries.values()} == {""}
    assert payload_of(entries["login"]) == {
        "action": "login",
        "log_type": "account",
        "actor_id": name,
        "actor_via_sso": False,
        "actor_username": name,
        "actor_name": name,
        "traits": {"provider": "email"},
    }
    assert payload_of(entries["factor_unenrolled"])["traits"] == {
        "factor_id": name,
        "factor_status": "verified",
        "session_id": name,
    }
    deleted = payload_of(entries["user_deleted"])
    assert (deleted["actor_username"], deleted["traits"]) == (
        "manage.py",
        {"user_id": name, "user_email": name, "user_phone": name, "is_soft": False},
    )
    assert payload_of(entries["user_invited"])["traits"] == {"user_id": name, "user_email": name, "user_phone": ""}


def test_an_entry_about_another_user_loses_only_the_erased_name() -> None:
    person = DataSubject(id=uuid4())
    traits = {"user_id": str(uuid4()), "user_email": "bob@example.com", "by": str(person.id)}
    payload = {"action": "x", "actor_id": str(person.id), "actor_username": EMAIL, "traits": traits, "extra": EMAIL}
    name = str(personal_data.pseudonym(person.id))
    assert erasure.pseudonymise_payload(payload, data_subject=person, keep_id=False) == {
        "action": "x",
        "actor_id": name,
        "actor_username": name,
        "traits": {**traits, "by": name},
    }


def test_an_erased_actor_is_removed_from_entries_about_others() -> None:
    user, other = make_plain_user(email=EMAIL), make_plain_user(email="bob@example.com")
    traits = {"user_id": str(other.id), "user_email": "bob@example.com"}
    payload = {"action": "user_modified", "actor_id": str(user.id), "actor_username": EMAIL, "traits": traits}
    entry = AuditLogEntry.objects.create(id=uuid4(), payload=payload, created_at=timezone.now(), ip_address=ADDRESS)
    name = erase(str(user.id))["pseudonym"]
    entry.refresh_from_db()
    assert entry.payload == {**payload, "actor_id": name, "actor_username": name}


def test_the_audit_entries_of_a_user_are_read_by_indexes() -> None:
    with connection.cursor() as cursor, transaction.atomic():
        # The planner reads small tables completely.
        cursor.execute("SET LOCAL enable_seqscan = off")
        plan = erasure.entries_of(uuid4()).values("id").explain()
    for index in ("audit_log_entries_history_user_kind_idx", "audit_log_entries_history_other_actor_idx"):
        assert namespaced(index) in plan


def test_keep_id_keeps_the_id_only() -> None:
    user = make_user()
    before = trail()
    receipt = erase(EMAIL, "--keep-id")
    assert tables_with(EMAIL, PHONE, NAME) == {}
    assert waiting_for(EMAIL) == 0
    kept = User.objects.get()
    assert (kept.id, kept.role, kept.email, kept.phone, kept.email_change) == (user.id, user.role, None, None, "")
    assert (kept.raw_user_meta_data, kept.raw_app_meta_data, kept.password) == ({}, {}, None)
    assert kept.deleted_at is not None
    assert tables_with(user.id) == {"users": 1, TRAIL: 4}
    assert trail() == before
    assert receipt["rewritten"] == {TRAIL: 4, "users": 1}
    assert (receipt["left"], receipt["removed"]["identities"]) == ({}, 1)
    (login,) = AuditLogEntry.objects.filter(payload__action="login")
    assert payload_of(login)["actor_id"] == str(user.id)
    assert payload_of(login)["actor_username"] == receipt["pseudonym"]


def test_the_digest_of_a_receipt_is_that_of_its_text() -> None:
    make_user()
    text = run("erase_user", EMAIL, "--yes").strip().encode()
    receipt = orjson.loads(text)
    claimed = receipt.pop("sha256")
    assert hashlib.sha256(orjson.dumps(receipt, option=orjson.OPT_SORT_KEYS)).hexdigest() == claimed


def test_an_interrupted_erasure_is_finished_by_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    entries = 4 + 500
    make_audit_entries(500, payload={"action": "login", "actor_id": str(user.id)}, at=timezone.now())
    execute, batches = psycopg.Cursor.execute, itertools.count(1)

    def interrupt_second_batch(cursor: psycopg.Cursor, sql: str, *arguments: Any, **options: Any) -> psycopg.Cursor:
        if f"UPDATE {TRAIL} " in sql and next(batches) == 2:
            raise KeyboardInterrupt
        return execute(cursor, sql, *arguments, **options)

    with monkeypatch.context() as interrupted:
        interrupted.setattr(psycopg.Cursor, "execute", interrupt_second_batch)
        with pytest.raises(CommandError, match="interrupted"):
            erase(EMAIL)
    assert next(batches) == 3
    assert tables_with(user.id).keys() == {TRAIL}

    with pytest.raises(CommandError, match="specify the user id that it printed"):
        erase(EMAIL)
    receipt = erase(str(user.id))
    assert tables_with(user.id, EMAIL, PHONE, NAME) == {}
    assert (receipt["removed"], receipt["rewritten"]) == ({}, {TRAIL: entries - 500})
    assert erase(str(user.id))["rewritten"] == {TRAIL: 0}


def test_an_unknown_id_is_rejected() -> None:
    with pytest.raises(CommandError, match="no data exists for this id"):
        erase(str(uuid4()))


def test_erasure_needs_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    monkeypatch.setattr("sys.stdin", io.StringIO("erase\n"))
    with pytest.raises(CommandError, match="a terminal is required for confirmation"):
        run("erase_user", EMAIL)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.readline", lambda: "yes\n")
    with pytest.raises(CommandError, match="nothing was erased"):
        run("erase_user", EMAIL)
    assert User.objects.filter(id=user.id, email=EMAIL).exists()


def test_a_message_in_delivery_is_reported_and_removed_by_the_next_run() -> None:
    user = make_user()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing' WHERE status = 'todo'")
    with pytest.raises(CommandError, match="some rows could not be deleted, run the command again: messages"):
        erase(EMAIL)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'todo' WHERE status = 'doing'")
    assert erase(str(user.id))["removed"] == {"messages": 1}
