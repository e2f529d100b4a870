"""Constraints of the database: generated columns, uniqueness, checks and cascades, tested in plain SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DataError, Error, IntegrityError, connection
from django.utils import timezone

from accounts.models import Factor, FactorChallenge, Identity, Passkey, PasskeyChallenge, RecoveryCode
from authsvc import audit
from authsvc.caller import Caller
from authsvc.security import encryption
from tests.conftest import Api, Mailbox
from tests.factories import (
    make_factor,
    make_flow,
    make_legacy_tokens,
    make_one_time_token,
    make_session,
    make_user,
    read_record,
)
from tests.observations import audit_trail, backdate_rate_limits
from tokens.models import AmrClaim, FlowState, LegacyRefreshToken, OneTimeToken, Session, TokenType

pytestmark = pytest.mark.django_db

NINE, TEN = datetime(2024, 5, 1, 9, tzinfo=UTC), datetime(2024, 5, 1, 10, tzinfo=UTC)

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run() -> Run:
    def run(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    return run


def insert_user(run: Run, **columns: Any) -> UUID:
    """A row with nothing but an id and what is given."""
    user_id = uuid4()
    values = {"id": user_id, **columns}
    run(f"INSERT INTO users ({', '.join(values)}) VALUES ({', '.join(['%s'] * len(values))})", *values.values())
    return user_id


def insert_identity(run: Run, user_id: UUID, data: str = "{}", provider: str = "google", subject: str = "7") -> None:
    run(
        "INSERT INTO identities (id, provider_id, user_id, identity_data, provider) VALUES (%s, %s, %s, %s::jsonb, %s)",
        uuid4(), subject, user_id, data, provider,
    )  # fmt: skip


# Columns that are made by the database


def test_row_has_database_defaults(run: Run) -> None:
    user_id = insert_user(run)
    (row,) = run(
        "SELECT email_change_confirm_status, is_sso_user, is_anonymous, phone_change, phone, email, confirmed_at"
        " FROM users WHERE id = %s",
        user_id,
    )
    assert row == (0, False, False, "", None, None, None)


@pytest.mark.parametrize(
    ("by_email", "by_phone", "confirmed"),
    [(TEN, NINE, NINE), (NINE, TEN, NINE), (TEN, None, TEN), (None, TEN, TEN), (None, None, None)],
)
def test_confirmed_at_is_earlier_confirmation(
    run: Run, by_email: datetime | None, by_phone: datetime | None, confirmed: datetime | None
) -> None:
    user_id = insert_user(run, email_confirmed_at=by_email, phone_confirmed_at=by_phone)
    assert run("SELECT confirmed_at FROM users WHERE id = %s", user_id) == [(confirmed,)]


@pytest.mark.django_db(transaction=True)
def test_generated_columns_cannot_be_written(run: Run) -> None:
    user_id = insert_user(run)
    with pytest.raises(Error, match="confirmed_at"):
        run("UPDATE users SET confirmed_at = now() WHERE id = %s", user_id)
    with pytest.raises(Error, match="confirmed_at"):
        insert_user(run, confirmed_at=TEN)
    insert_identity(run, user_id)
    with pytest.raises(Error, match="email"):
        run("UPDATE identities SET email = 'x' WHERE user_id = %s", user_id)


@pytest.mark.parametrize(
    ("data", "email"),
    [
        ('{"email": "A@B.c"}', "a@b.c"),
        ("{}", None),
        ('{"email": null}', None),
        ('{"email": ""}', ""),
        ('{"other": "a@b.c"}', None),
    ],
)
def test_email_of_identity_is_claimed_email_in_lower_case(run: Run, data: str, email: str | None) -> None:
    user_id = insert_user(run)
    insert_identity(run, user_id, data)
    assert run("SELECT email FROM identities WHERE user_id = %s", user_id) == [(email,)]
    run('UPDATE identities SET identity_data = \'{"email": "NEW@b.c"}\' WHERE user_id = %s', user_id)
    assert run("SELECT email FROM identities WHERE user_id = %s", user_id) == [("new@b.c",)]


# Uniqueness


@pytest.mark.django_db(transaction=True)
def test_email_is_unique_across_audiences(run: Run) -> None:
    insert_user(run, email="a@b.co", aud="one")
    for audience in ("one", "two", None):
        with pytest.raises(IntegrityError, match="users_email_partial_key"):
            insert_user(run, email="a@b.co", aud=audience)
    assert len(run("SELECT id FROM users")) == 1


@pytest.mark.django_db(transaction=True)
def test_sso_accounts_may_share_an_address(run: Run) -> None:
    insert_user(run, email="a@b.co")
    insert_user(run, email="a@b.co", is_sso_user=True)
    other = insert_user(run, email="a@b.co", is_sso_user=True)
    with pytest.raises(IntegrityError, match="users_email_partial_key"):
        run("UPDATE users SET is_sso_user = false WHERE id = %s", other)


def test_several_accounts_can_have_no_email_or_phone(run: Run) -> None:
    for _ in range(3):
        insert_user(run, email=None, phone=None)
    assert len(run("SELECT id FROM users")) == 3


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("columns", [{}, {"is_sso_user": True}, {"deleted_at": TEN}, {"aud": "two"}])
def test_phone_is_unique(run: Run, columns: dict[str, Any]) -> None:
    insert_user(run, phone="15551234567")
    with pytest.raises(IntegrityError, match="users_phone_key"):
        insert_user(run, phone="15551234567", **columns)


@pytest.mark.django_db(transaction=True)
def test_subject_of_provider_is_unique(run: Run) -> None:
    one, other = insert_user(run), insert_user(run)
    insert_identity(run, one, provider="google", subject="7")
    insert_identity(run, other, provider="github", subject="7")
    insert_identity(run, other, provider="google", subject="8")
    for user_id in (one, other):
        with pytest.raises(IntegrityError, match="identities_provider_id_provider_unique"):
            insert_identity(run, user_id, provider="google", subject="7")


@pytest.mark.django_db(transaction=True)
def test_one_time_token_is_unique_per_purpose_and_link() -> None:
    user, other = make_user(), make_user()
    make_one_time_token(user)
    row = OneTimeToken.objects.get()
    values = {"user": user, "token_hash": "x", "relates_to": "x"}
    with pytest.raises(IntegrityError, match="one_time_tokens_user_id_token_type_key"):
        OneTimeToken.objects.create(**values, token_type=TokenType.RECOVERY)
    with pytest.raises(IntegrityError, match="one_time_tokens_link_hash_key"):
        OneTimeToken.objects.create(**{**values, "user": other}, token_type=TokenType.RECOVERY, link_hash=row.link_hash)
    OneTimeToken.objects.create(**values, token_type=TokenType.PHONE_CHANGE, link_hash=None)
    OneTimeToken.objects.create(**{**values, "user": other}, token_type=TokenType.PHONE_CHANGE, link_hash=None)
    assert OneTimeToken.objects.count() == 3


def test_amr_claim_is_unique_per_session_and_method() -> None:
    made = make_session()
    at = timezone.now()
    with pytest.raises(IntegrityError, match="mfa_amr_claims_session_id_authentication_method_pkey"):
        AmrClaim.objects.create(session=made.session, authentication_method="password", created_at=at, updated_at=at)


def test_factor_name_is_unique_or_absent() -> None:
    user, other = make_user(), make_user()
    make_factor(user, friendly_name="phone")
    make_factor(other, friendly_name="phone")
    for name in ("", " ", "", None, None):
        make_factor(user, friendly_name=name)
    with pytest.raises(IntegrityError, match="mfa_factors_user_friendly_name_unique"):
        make_factor(user, friendly_name="phone")


# Checks


@pytest.mark.parametrize("status", [0, 1, 2, None])
def test_known_email_change_status_is_stored(run: Run, status: int | None) -> None:
    insert_user(run, email_change_confirm_status=status)
    assert run("SELECT email_change_confirm_status FROM users") == [(status,)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE users SET email_change_confirm_status = 3", "users_email_change_confirm_status_check"),
        ("UPDATE users SET email_change_confirm_status = -1", "users_email_change_confirm_status_check"),
        ("UPDATE sessions SET aal = 'aal4'", "sessions_aal_check"),
        ("UPDATE sessions SET scopes = repeat('x', 4097)", "sessions_scopes_length"),
        ("UPDATE one_time_tokens SET token_hash = ''", "one_time_tokens_token_hash_check"),
        ("UPDATE one_time_tokens SET token_type = 'x'", "one_time_tokens_token_type_check"),
        ("UPDATE flow_state SET code_challenge_method = 'S256'", "flow_state_code_challenge_method_check"),
        ("UPDATE mfa_factors SET factor_type = 'x'", "mfa_factors_factor_type_check"),
        ("UPDATE mfa_factors SET status = 'x'", "mfa_factors_status_check"),
    ],
)
def test_value_outside_list_is_rejected(run: Run, statement: str, constraint: str) -> None:
    made = make_session()
    make_one_time_token(made.user)
    make_flow(made.user)
    make_factor(made.user)
    with pytest.raises(IntegrityError, match=constraint):
        run(statement)


@pytest.mark.parametrize(("column", "value"), [("aal", None), ("aal", "aal3"), ("scopes", "x" * 4096), ("ip", None)])
def test_value_at_edge_of_list_is_stored(run: Run, column: str, value: str | None) -> None:
    make_session()
    run(f"UPDATE sessions SET {column} = %s", value)
    assert run(f"SELECT {column} FROM sessions") == [(value,)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["ip = '999.1.1.1'", "ip = 'x'", "id = 'x'"])
def test_value_of_other_type_is_rejected(run: Run, statement: str) -> None:
    make_session()
    with pytest.raises(DataError):
        run(f"UPDATE sessions SET {statement}")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("identities", {"provider_id": "7", "identity_data": "{}", "provider": "google"}),
        ("sessions", {}),
        ("mfa_factors", {"factor_type": "totp", "status": "verified", "created_at": TEN, "updated_at": TEN}),
        ("one_time_tokens", {"token_type": "recovery_token", "token_hash": "x", "relates_to": "x"}),
        ("mfa_recovery_codes", {"code_hash": "x", "created_at": TEN}),
        ("webauthn_credentials", {"credential_id": b"x", "public_key": b"x"}),
        ("webauthn_challenges", {"challenge_type": "registration", "session_data": "{}", "expires_at": TEN}),
    ],
)
def test_foreign_keys_reject_unknown_accounts(run: Run, table: str, columns: dict[str, Any]) -> None:
    values = {"id": uuid4(), "user_id": uuid4(), **columns}
    with pytest.raises(IntegrityError, match=f"{table}_user_id_fkey"):
        run(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(['%s'] * len(values))})", *values.values())


# Cascades


def test_deletion_of_an_account_cascades_to_its_own_rows_only(run: Run) -> None:
    user, other = make_user(), make_user()
    for owner in (user, other):
        make_session(owner)
        make_legacy_tokens(owner)
        factor = make_factor(owner)
        FactorChallenge.objects.create(factor=factor, created_at=TEN)
        RecoveryCode.objects.create(user=owner, code_hash="x", created_at=TEN)
        Passkey.objects.create(user=owner, credential_id=owner.id.bytes, public_key=b"x")
        PasskeyChallenge.objects.create(user=owner, challenge_type="registration", session_data={}, expires_at=TEN)
        make_one_time_token(owner)
        make_flow(owner)
    audit.record(audit.Action.LOGIN, actor=read_record(user), caller=Caller(), at=timezone.now())
    tables: list[Any] = [
        Identity,
        Session,
        LegacyRefreshToken,
        Factor,
        RecoveryCode,
        Passkey,
        PasskeyChallenge,
        OneTimeToken,
    ]
    before = {table: table.objects.filter(user_id=other.id).count() for table in tables}

    run("DELETE FROM users WHERE id = %s", user.id)
    assert [table.objects.filter(user_id=user.id).count() for table in tables] == [0] * len(tables)
    assert {table: table.objects.filter(user_id=other.id).count() for table in tables} == before
    assert all(before.values())
    assert set(AmrClaim.objects.values_list("session__user_id", flat=True)) == {other.id}
    assert set(FactorChallenge.objects.values_list("factor__user_id", flat=True)) == {other.id}
    assert FlowState.objects.filter(user_id=user.id).count() == 1
    assert audit_trail() == [("login", None)]


def test_deletion_of_session_cascades_to_methods_and_tokens(run: Run) -> None:
    user = make_user()
    kept = make_session(user)
    gone = make_legacy_tokens(user)[0].session_id
    run("DELETE FROM sessions WHERE id = %s", gone)
    assert list(Session.objects.values_list("id", flat=True)) == [kept.session.id]
    assert list(AmrClaim.objects.values_list("session_id", flat=True)) == [kept.session.id]
    assert not LegacyRefreshToken.objects.exists()


# Tables and columns that are there, or must not be


def test_secrets_are_stored_in_one_table(run: Run) -> None:
    columns = {name for (name,) in run("SELECT column_name FROM information_schema.columns WHERE table_name = 'users'")}
    assert {name for name in columns if "token" in name} == set()
    assert not columns & {"instance_id", "is_super_admin", "is_staff", "is_superuser", "last_login", "is_active"}


def test_no_index_contains_column_updated_by_sign_in_or_refresh(run: Run) -> None:
    definitions = [sql for (sql,) in run("SELECT indexdef FROM pg_indexes WHERE tablename IN ('users', 'sessions')")]
    assert definitions
    for column in ("last_sign_in_at", "refreshed_at", "refresh_token_counter", "updated_at", "user_agent"):
        assert not [sql for sql in definitions if column in sql]


def test_frequently_updated_tables_have_fillfactor(run: Run) -> None:
    options: dict[str, str] = dict(
        run("SELECT relname::text, reloptions::text FROM pg_class WHERE relname IN ('users', 'sessions')")
    )
    assert options == {"users": "{fillfactor=85}", "sessions": "{fillfactor=85}"}


def test_counter_table_is_unlogged(run: Run) -> None:
    assert run("SELECT relpersistence::text FROM pg_class WHERE relname = 'rate_limits'") == [("u",)]


@pytest.mark.parametrize(
    ("table", "index"),
    [
        ("identities", "identities_email_idx"),
        ("identities", "identities_user_id_idx"),
        ("sessions", "sessions_user_id_idx"),
        ("sessions", "user_id_created_at_idx"),
        ("sessions", "sessions_not_after_idx"),
        ("one_time_tokens", "one_time_tokens_token_hash_hash_idx"),
        ("one_time_tokens", "one_time_tokens_relates_to_hash_idx"),
        ("flow_state", "idx_auth_code"),
        ("flow_state", "idx_user_id_auth_method"),
        ("flow_state", "flow_state_created_at_idx"),
        ("users", "users_is_anonymous_idx"),
    ],
)
def test_documented_indexes_exist(run: Run, table: str, index: str) -> None:
    assert run("SELECT 1 FROM pg_indexes WHERE tablename = %s AND indexname = %s", table, index) == [(1,)]


# Invariants of requests


def test_a_second_recovery_replaces_the_first(api: Api, mailbox: Mailbox) -> None:
    user = make_user(email="a@b.co")
    for _ in range(2):
        assert api.post("/recover", {"email": "a@b.co"}).status_code == 200
        backdate_rate_limits(timedelta(minutes=2))
    assert OneTimeToken.objects.filter(user=user).count() == 1
    first = mailbox.emails[0].variables["TokenHash"]
    response = api.get(f"/verify?type=recovery&token={first}")
    assert "error_code=otp_expired" in response.headers["Location"]


def test_redeemed_secret_invalidates_other_secrets_of_user(api: Api) -> None:
    user = make_user()
    secret = make_one_time_token(user)
    for purpose in (TokenType.EMAIL_CHANGE_NEW, TokenType.EMAIL_CHANGE_CURRENT):
        make_one_time_token(user, purpose)
    assert api.post("/verify", {"type": "recovery", "token_hash": secret.link_token}).status_code == 200
    assert not OneTimeToken.objects.exists()


def test_new_session_has_key_counter_and_method(api: Api) -> None:
    made = make_session()
    body = {"refresh_token": made.refresh_token}
    assert api.post("/token?grant_type=refresh_token", body).status_code == 200
    session = Session.objects.get()
    assert len(encryption.decrypt(session.refresh_token_hmac_key or "", bound_to=session.id)) == 43
    assert session.refresh_token_counter == 1
    assert AmrClaim.objects.filter(session=session).count() == 1
    assert not LegacyRefreshToken.objects.exists()


def test_null_text_columns_are_returned_as_empty_text(api: Api, run: Run) -> None:
    made = make_session()
    run(
        "UPDATE users SET role = NULL, phone = NULL, email_change = NULL, phone_change = NULL,"
        " raw_app_meta_data = NULL, raw_user_meta_data = NULL, email_change_confirm_status = NULL WHERE id = %s",
        made.user.id,
    )
    shown = api.get("/user", bearer=made.access_token).json()
    assert (shown["role"], shown["phone"]) == ("", "")
    assert (shown["app_metadata"], shown["user_metadata"]) == ({}, {})
    refreshed = api.post("/token?grant_type=refresh_token", {"refresh_token": made.refresh_token})
    assert refreshed.json()["user"]["role"] == ""


def test_redemption_fills_null_metadata(api: Api) -> None:
    user = make_user(confirmed=False, raw_user_meta_data=None, raw_app_meta_data=None)
    secret = make_one_time_token(user, TokenType.CONFIRMATION)
    shown = api.post("/verify", {"type": "signup", "token_hash": secret.link_token}).json()["user"]
    assert shown["user_metadata"] == {"email_verified": True}
    assert shown["app_metadata"] == {"provider": "email", "providers": ["email"]}
