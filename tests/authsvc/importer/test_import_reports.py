"""Reports of an import: skipped rows, and data that does not work with the settings."""

from __future__ import annotations

from uuid import uuid4

import pytest

from accounts.models import User
from tests.authsvc.importer.conftest import run
from tests.authsvc.importer.filled_reference import fill
from tests.authsvc.importer.reference import Reference
from tests.conftest import Api
from tests.tokens.token_requests import error_of, refresh
from tokens.models import LegacyRefreshToken

pytestmark = pytest.mark.django_db(transaction=True)

# Skipped rows


def test_users_of_another_instance_are_not_imported(reference: Reference) -> None:
    taken = reference.user(instance_id=None)
    other = reference.user(instance_id=uuid4())
    reference.refresh_token(other, "ab2c3def4ghi", session_id=reference.session(other))
    ran = run(reference.url)
    assert ran.error == ""
    assert ran.counts("users") == {"read": 2, "new": 1, "skipped": 1}
    assert "skipped: users: 1 rows: belongs to another instance" in ran.output
    assert "skipped: sessions: 1 rows: its user is skipped" in ran.output
    assert [user.id for user in User.objects.all()] == [taken]

    assert run(reference.url, "--all-instances").error == ""
    assert User.objects.count() == 2
    assert LegacyRefreshToken.objects.get().user_id == other


@pytest.mark.parametrize("owner", ["6f0c5c0e-6a0b-4d7e-9d0a-3f1f4b1d7c11", "nobody"])
def test_a_refresh_token_without_a_user_is_skipped_and_reported(owner: str, reference: Reference) -> None:
    reference.user()
    reference.refresh_token(owner, "ab2c3def4ghi")
    ran = run(reference.url)
    assert ran.error == ""
    assert ran.counts("refresh_tokens") == {"read": 1, "skipped": 1}
    assert "skipped: refresh_tokens: 1 rows: its user is missing" in ran.output


def test_a_skipped_active_refresh_token_fails_the_command(reference: Reference) -> None:
    user_id = reference.user()
    reference.execute("ALTER TABLE auth.refresh_tokens DROP CONSTRAINT refresh_tokens_session_id_fkey")
    reference.refresh_token(user_id, "ab2c3def4ghi", session_id=uuid4())
    ran = run(reference.url)
    assert ran.error == "1 sessions, refresh tokens or passkeys of imported users were skipped"
    assert "skipped: refresh_tokens: 1 rows: its session is missing" in ran.output
    assert User.objects.filter(id=user_id).exists()


def test_a_refresh_token_without_a_session_is_imported(api: Api, reference: Reference) -> None:
    user_id = reference.user()
    reference.refresh_token(user_id, "ab2c3def4ghi")
    assert run(reference.url).counts("refresh_tokens") == {"read": 1, "new": 1}
    assert error_of(refresh(api, "ab2c3def4ghi"))[1] == "session_not_found"


def test_orphans_without_constraints_at_the_source_are_skipped(reference: Reference) -> None:
    for table in ("identities", "sessions", "mfa_amr_claims"):
        column = "session_id" if table == "mfa_amr_claims" else "user_id"
        reference.execute(f"ALTER TABLE auth.{table} DROP CONSTRAINT {table}_{column}_fkey")
    reference.user()
    reference.identity(uuid4(), "nobody@example.com")
    reference.session(uuid4())
    ran = run(reference.url)
    assert ran.error == ""
    for table, owner in (("identities", "user"), ("sessions", "user"), ("mfa_amr_claims", "session")):
        assert f"skipped: {table}: 1 rows: its {owner} is " in ran.output, ran.output


# Reports


def test_unsupported_tables_and_columns_are_reported(reference: Reference) -> None:
    reference.user()
    reference.insert("sso_providers", id=uuid4())
    reference.execute("INSERT INTO auth.schema_migrations VALUES ('20990101000000')")
    reference.execute("ALTER TABLE auth.users ADD COLUMN shoe_size int")
    reference.execute("CREATE TABLE auth.pets AS SELECT 'Rex' AS name")

    ran = run(reference.url)

    assert ran.error == ""
    assert "not imported: sso_providers: 1 rows: this server does not support single sign-on yet" in ran.output
    assert "not imported: pets: 1 rows: unknown table" in ran.output
    assert "warning: the source is newer (20990101000000) than the supported version (20260625000000)" in ran.warnings
    assert "warning: users: unknown columns are not imported: shoe_size" in ran.warnings


def test_unusable_data_is_reported(reference: Reference) -> None:
    reference.user(encrypted_password="sha1$salt$digest", aud="elsewhere")
    ran = run(reference.url)
    assert "1 users have a password hash of an unknown format" in ran.warnings
    assert "1 users have an audience other than AUTH_JWT_AUD ('authenticated')" in ran.warnings


@pytest.mark.parametrize(
    ("stored", "is_too_expensive"),
    [
        (f"$2a$14${'a' * 53}", False),
        (f"$2a$15${'a' * 53}", True),
        ("$argon2id$v=19$m=262144,t=3,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", False),
        ("$argon2id$v=19$m=262145,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", True),
        ("$argon2id$v=19$m=262144,t=4,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", True),
        ("$argon2i$v=19$m=99999999999999999999,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", True),
        ("$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=YQ==$YQ==$YQ==", False),
        ("$fbscrypt$v=1,n=14,r=8,p=9,ss=Bw==,sk=YQ==$YQ==$YQ==", True),
        ("$fbscrypt$v=1,n=99,r=8,p=1,ss=Bw==,sk=YQ==$YQ==$YQ==", True),
    ],
)
def test_hashes_of_excessive_cost_are_reported(reference: Reference, stored: str, is_too_expensive: bool) -> None:
    reference.user(encrypted_password=stored)
    ran = run(reference.url)
    assert ran.error == ""
    assert ("1 users have a password hash whose verification" in ran.warnings) is is_too_expensive


def test_large_metadata_is_reported(reference: Reference) -> None:
    reference.user(raw_user_meta_data={"a": "x" * 17_000})
    assert "1 users have metadata beyond AUTH_USER_METADATA_MAX_BYTES" in run(reference.url).warnings


def test_a_valid_source_causes_no_warning(reference: Reference) -> None:
    fill(reference)
    assert run(reference.url).warnings == ""
