"""Conditions under which `import_reference` writes nothing, and their one-line error messages."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from accounts.models import User
from tests import factories
from tests.authsvc.importer.conftest import run
from tests.authsvc.importer.reference import Reference
from tests.live import servers

pytestmark = pytest.mark.django_db(transaction=True)

ADA, GRACE = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mysql:secret@host", "specify the source as postgres://"),
        ("postgres://u:secret@nowhere.invalid:1/x", "the source cannot be reached: "),
        ("postgres://u:secret@127.0.0.1:1/x", "the source cannot be reached: "),
        ("postgres://u:sec@ret@host/x", "write an @ in the password of the source as %40"),
        ("postgres://u:secret@127.0.0.1:1/x?nonsense=1", "specify the source as postgres://"),
    ],
)
def test_an_unreachable_source_is_reported_without_its_password(source: str, message: str) -> None:
    ran = run(source)
    assert ran.error.startswith(message)
    assert "\n" not in ran.error
    assert not any(part in ran.error for part in ("secret", "sec@", "ret@"))


def test_a_database_without_the_schema_is_rejected(empty_database_url: str) -> None:
    assert run(empty_database_url).error == "the source has no schema auth (--schema names another one)"
    expected = "the schema public of the source has no table users: it is not a reference database"
    assert run(empty_database_url, "--schema", "public").error == expected


def test_another_schema_can_be_selected(reference: Reference) -> None:
    reference.user()
    reference.execute('ALTER SCHEMA auth RENAME TO "old Auth"')
    ran = run(reference.url, "--schema", "old Auth")
    assert (ran.error, ran.counts("users")) == ("", {"read": 1, "new": 1})


@pytest.fixture
def reader(reference: Reference) -> Iterator[str]:
    """The URL of the reference database for a role without privileges."""
    reference.execute("CREATE ROLE importer LOGIN")
    old = parse_qs(urlsplit(reference.url).query)["user"][0]
    yield reference.url.replace(f"user={old}", "user=importer")
    reference.execute("DROP OWNED BY importer")
    reference.execute("DROP ROLE importer")


def test_missing_rights_are_named(reference: Reference, reader: str) -> None:
    reference.user()
    assert run(reader).error == "the role importer has no right to use the schema auth of the source"
    reference.execute("GRANT USAGE ON SCHEMA auth TO importer")
    reference.execute("GRANT SELECT ON ALL TABLES IN SCHEMA auth TO importer")
    reference.execute("REVOKE SELECT ON auth.users, auth.sessions FROM importer")
    expected = "the role importer has no right to read auth.sessions, auth.users"
    assert run(reader).error == expected
    reference.execute("GRANT SELECT ON ALL TABLES IN SCHEMA auth TO importer")
    assert run(reader).counts("users") == {"read": 1, "new": 1}


def test_a_row_level_security_policy_is_reported(reference: Reference, reader: str) -> None:
    reference.user()
    reference.execute("GRANT USAGE ON SCHEMA auth TO importer")
    reference.execute("GRANT SELECT ON ALL TABLES IN SCHEMA auth TO importer")
    reference.execute("ALTER TABLE auth.users ENABLE ROW LEVEL SECURITY")
    ran = run(reader)
    assert ran.error == ('nothing was written: query would be affected by row-level security policy for table "users"')


def test_an_unmigrated_target_database_is_rejected(reference: Reference) -> None:
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("accounts")
    MigrationRecorder(connection).record_unapplied(*newest)
    try:
        ran = run(reference.url)
    finally:
        MigrationRecorder(connection).record_applied(*newest)
    assert ran.error == "this database lacks migrations: run `manage.py migrate` first"


def test_addresses_that_differ_only_in_case_are_listed(reference: Reference) -> None:
    reference.user("Ada@example.com", id=ADA)
    reference.user("ada@example.com", id=GRACE)
    ran = run(reference.url)
    assert ran.error == f"users at the source that share one email address:\n  {ADA} {GRACE}"
    assert not User.objects.exists()


def test_phones_that_differ_only_in_the_plus_sign_are_listed(reference: Reference) -> None:
    reference.user(phone="+1555", id=ADA)
    reference.user(phone="1555", id=GRACE)
    assert run(reference.url).error == f"users at the source that share one phone number:\n  {ADA} {GRACE}"


def test_equal_addresses_of_sso_users_are_no_conflict(reference: Reference) -> None:
    reference.user("ada@example.com")
    reference.user("ada@example.com", is_sso_user=True)
    assert run(reference.url).counts("users") == {"read": 2, "new": 2}


def test_addresses_of_existing_users_are_listed(reference: Reference) -> None:
    ours = factories.make_user(email="ada@example.com")
    reference.user("ada@example.com", id=ADA)
    ran = run(reference.url)
    assert f"{ours.id} here, {ADA} at the source" in ran.error
    assert "users here have the email address of a different user at the source" in ran.error
    assert User.objects.get().id == ours.id
    assert run(reference.url, "--delete-missing-users").counts("users") == {"read": 1, "new": 1, "deleted": 1}


def test_an_empty_source_deletes_no_users(reference: Reference) -> None:
    factories.make_user()
    ran = run(reference.url, "--delete-missing-users")
    assert ran.error == "the source has no users: every user here would be deleted"
    assert User.objects.count() == 1


def test_an_unexpected_conflict_changes_nothing(reference: Reference) -> None:
    ours = factories.make_user()
    user_id = reference.user()
    reference.identity(user_id, "x@example.com", provider_id=str(ours.id))
    ran = run(reference.url)
    assert (
        ran.error
        == "nothing was written: UniqueViolation, constraint identities_provider_id_provider_unique in identities"
    )
    assert User.objects.get().id == ours.id


def test_the_source_may_be_a_schema_of_the_target_database(transactional_db: None) -> None:
    name = connection.settings_dict["NAME"]
    reference = Reference(servers.server_url().replace("/postgres?", f"/{name}?"))
    try:
        reference.user()
        assert run(reference.url).counts("users") == {"read": 1, "new": 1}
    finally:
        reference.execute("DROP SCHEMA auth CASCADE")
        reference.close()


def test_an_unreadable_value_is_reported_with_its_table_and_without_its_text(reference: Reference) -> None:
    reference.user()
    reference.execute(
        "INSERT INTO auth.audit_log_entries VALUES (NULL, %s, %s)", [ADA, r'{"actor_username": "\ud83d"}']
    )
    ran = run(reference.url, "--with-audit-log")
    assert ran.error == "nothing was written: InvalidTextRepresentation in audit_log_entries"
