"""Monthly partitions of the audit trail: creation ahead, the default partition, retention, and the migration."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from authsvc.audit import partitions
from authsvc.models import AuditLogEntry
from tests import preloaded_python
from tests.conftest import ChangeConfig
from tests.live import servers
from tests.settings import ENVIRONMENT

NAMES = "SELECT tableoid::regclass::text FROM audit_log_entries ORDER BY created_at"
YEAR = timedelta(days=365)


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=partitions.__name__)


@pytest.fixture
def next_year() -> datetime:
    """A time after all partitions that a migration makes."""
    return timezone.now() + YEAR


def store(*times: datetime) -> None:
    AuditLogEntry.objects.bulk_create(AuditLogEntry(payload={}, created_at=at) for at in times)


def places() -> list[str]:
    """The partition of each entry, in the order of time."""
    with connection.cursor() as cursor:
        cursor.execute(NAMES)
        return [name for (name,) in cursor.fetchall()]


def table_of(at: datetime) -> str:
    return f"audit_log_entries_{at.astimezone(UTC):%Y_%m}"


def open_connection() -> psycopg.Connection[Any]:
    """Another connection to the test's database."""
    parameters = connection.get_connection_params()
    return psycopg.connect(**{key: parameters[key] for key in ("dbname", "user", "host", "port") if key in parameters})


def existing() -> list[partitions.Partition]:
    with connection.cursor() as cursor:
        return partitions.read_partitions(cursor)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-12-31T23:59:59.999999Z", "2027-01-01T00:00:00Z"),
        ("2027-01-31T00:00:00Z", "2027-02-01T00:00:00Z"),
        ("2026-12-01T00:30:00+01:00", "2026-12-01T00:00:00Z"),
    ],
)
def test_months_begin_in_utc(at: str, expected: str) -> None:
    assert partitions.next_month(datetime.fromisoformat(at)) == datetime.fromisoformat(expected)


@pytest.mark.django_db
def test_entries_go_to_the_partition_of_their_month_which_is_made_ahead(next_year: datetime) -> None:
    partitions.maintain(at=next_year)
    made = existing()
    assert made[-1].name == table_of(made[-1].end - timedelta(days=1))
    assert partitions.next_month(partitions.next_month(next_year)) < made[-1].end
    partitions.maintain(at=next_year)
    assert existing() == made

    store(datetime(1970, 1, 1, tzinfo=UTC), next_year, made[-1].end - timedelta(microseconds=1), made[-1].end)
    first, *later, last = places()
    assert (first, last) == ("audit_log_entries_history", "audit_log_entries_default")
    assert later == [table_of(next_year), made[-1].name]


@pytest.mark.django_db
def test_entries_leave_the_default_partition_when_that_of_their_month_is_made(next_year: datetime) -> None:
    far = next_year + 10 * YEAR
    store(next_year, far)
    assert places() == ["audit_log_entries_default"] * 2
    partitions.maintain(at=next_year)
    assert places() == [table_of(next_year), "audit_log_entries_default"]


@pytest.mark.django_db
def test_many_entries_stay_in_the_default_partition(next_year: datetime, caplog: pytest.LogCaptureFixture) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_log_entries (id, payload, created_at)"
            " SELECT gen_random_uuid(), '{}', %s FROM generate_series(1, 10001)",
            [next_year],
        )
    partitions.maintain(at=next_year)
    assert set(places()) == {"audit_log_entries_default"}
    [record] = caplog.records
    assert record.message == "audit entries stay in the default partition"
    assert {partition.name for partition in existing()} >= {table_of(partitions.next_month(next_year))}
    assert table_of(next_year) not in {partition.name for partition in existing()}

    # A month later, the month has its own partition and sign-ins do not wait for the default one.
    partitions.maintain(at=partitions.next_month(next_year))
    assert set(places()) == {table_of(next_year)}


@pytest.mark.django_db
@pytest.mark.parametrize("end", ["'{:%Y-%m-01}'", "MAXVALUE"], ids=["a later month", "every later month"])
def test_months_before_a_partition_made_by_hand_are_made(next_year: datetime, end: str) -> None:
    later = partitions.next_month(next_year)
    with connection.cursor() as cursor:
        cursor.execute('CREATE SCHEMA "by hand"')
        cursor.execute(
            'CREATE TABLE "by hand".later PARTITION OF audit_log_entries'
            f" FOR VALUES FROM ('{later:%Y-%m-01}') TO ({end.format(partitions.next_month(later))})"
        )
    partitions.maintain(at=next_year)
    store(next_year, later)
    assert places() == [table_of(next_year), '"by hand".later']


@pytest.mark.django_db
def test_partitions_of_a_wrong_future_leave_the_months_between(next_year: datetime) -> None:
    partitions.maintain(at=next_year + 3 * YEAR)
    with connection.cursor() as cursor:
        for partition in existing():
            if partition.end <= next_year + 3 * YEAR:
                cursor.execute(f"ALTER TABLE audit_log_entries DETACH PARTITION {partition.name}")
                cursor.execute(f"DROP TABLE {partition.name}")
    partitions.maintain(at=next_year)
    store(next_year)
    assert places() == [table_of(next_year)]


@pytest.mark.django_db
@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_partition_that_cannot_be_detached_keeps_no_other_one(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, next_year: datetime, is_dropped: bool
) -> None:
    partitions.maintain(at=next_year)
    first, second, *_ = existing()
    auth_config(audit={"retention": timedelta(days=30), "drop_expired": is_dropped})
    at = second.end + timedelta(days=30)
    with open_connection() as reader:
        reader.execute(f"SELECT FROM {first.name} LIMIT 1")
        partitions.maintain(at=at)
        assert existing()[0] == first
        assert second not in existing()
        assert [record.message for record in caplog.records][-2:] == [
            "audit partitions not maintained",
            f"audit partition {'dropped' if is_dropped else 'detached'}",
        ]
        caplog.clear()

        # The month of the second one is not made again, and later months are.
        partitions.maintain(at=at + 2 * YEAR)
        assert second.name not in {partition.name for partition in existing()}
        assert existing()[-1].end > at + 2 * YEAR


@pytest.mark.django_db
@pytest.mark.parametrize("is_dropped", [False, True])
def test_the_partition_of_a_month_is_detached_when_its_last_entry_has_expired(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, next_year: datetime, is_dropped: bool
) -> None:
    auth_config(audit={"retention": timedelta(days=30), "drop_expired": is_dropped})
    partitions.maintain(at=next_year)
    expired = [partition.name for partition in existing() if partition.end <= next_year - timedelta(days=30)]
    assert expired == []  # those were detached
    kept = existing()
    end = kept[0].end
    store(end - timedelta(seconds=1), end)
    caplog.clear()
    partitions.maintain(at=end + timedelta(days=30, microseconds=-1))
    assert existing()[: len(kept)] == kept
    assert caplog.records == []

    partitions.maintain(at=end + timedelta(days=30))
    assert places() == [table_of(end)]
    [record] = caplog.records
    assert record.message == f"audit partition {'dropped' if is_dropped else 'detached'}"
    assert vars(record)["table"] == kept[0].name
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NULL", [kept[0].name])
        assert cursor.fetchone() == (is_dropped,)
        if not is_dropped:
            cursor.execute(f"SELECT count(*) FROM {kept[0].name}")
            assert cursor.fetchone() == (1,)


@pytest.mark.django_db
@pytest.mark.parametrize("is_dropped", [False, True])
def test_expired_entries_of_the_default_partition(
    auth_config: ChangeConfig, next_year: datetime, is_dropped: bool
) -> None:
    auth_config(audit={"retention": timedelta(days=30), "drop_expired": is_dropped})
    partitions.maintain(at=next_year)
    store(next_year - YEAR * 2, next_year - YEAR, next_year)
    partitions.maintain(at=next_year)
    kept = [] if is_dropped else ["audit_log_entries_default"] * 2
    assert places() == [*kept, table_of(next_year)]


@pytest.mark.django_db
def test_without_a_retention_nothing_is_detached(next_year: datetime) -> None:
    before = existing()
    partitions.maintain(at=next_year)
    assert existing()[: len(before)] == before


@pytest.mark.django_db
def test_a_busy_table_is_left_for_the_next_run(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, next_year: datetime
) -> None:
    auth_config(audit={"retention": timedelta(days=30)})
    before = existing()
    with open_connection() as reader:
        reader.execute("SELECT count(*) FROM audit_log_entries")
        partitions.maintain(at=next_year)
        assert {record.message for record in caplog.records} == {"audit partitions not maintained"}
        assert existing() == before
    partitions.maintain(at=next_year)
    assert existing() != before


def on_deletion_from_default(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE FUNCTION on_deletion() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {statement}; RETURN old; END'"
        )
        cursor.execute(
            "CREATE TRIGGER on_deletion BEFORE DELETE ON audit_log_entries_default"
            " FOR EACH ROW EXECUTE FUNCTION on_deletion()"
        )


@pytest.mark.django_db
def test_a_failure_keeps_no_later_month_from_being_made(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, next_year: datetime
) -> None:
    auth_config(audit={"retention": timedelta(days=30), "drop_expired": True})
    partitions.maintain(at=next_year)
    at = next_year + YEAR
    store(next_year - YEAR * 3, at)
    assert places() == ["audit_log_entries_default"] * 2
    on_deletion_from_default("RAISE EXCEPTION ''no''")
    partitions.maintain(at=at)
    failures = [record for record in caplog.records if record.message == "audit partitions not maintained"]
    assert len(failures) == 2, "the month of the new entry, and the deletion of the expired one"
    names = {partition.name for partition in existing()}
    following = partitions.next_month(at)
    assert table_of(at) not in names
    assert {table_of(following), table_of(partitions.next_month(following))} <= names


@pytest.mark.django_db
def test_the_statement_timeout_of_the_role_does_not_apply(next_year: datetime) -> None:
    store(next_year)
    on_deletion_from_default("PERFORM pg_sleep(0.5)")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '400ms'")
    partitions.maintain(at=next_year)
    assert places() == [table_of(next_year)]


def migrate(url: str, *target: str) -> None:
    preloaded_python.run(
        [str(servers.PROJECT / "manage.py"), "migrate", "-v", "0", *target],
        env={**os.environ, **ENVIRONMENT, "DATABASE_URL": url},
        timeout=servers.START_SECONDS,
    ).check_returncode()


@pytest.fixture
def database(fresh_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(fresh_database_url, autocommit=True) as opened:
        yield opened


def test_an_upgrade_keeps_entries_and_privileges(fresh_database_url: str, database: psycopg.Connection[Any]) -> None:
    rows = "SELECT id, payload, created_at, ip_address FROM audit_log_entries ORDER BY created_at"
    insert = "INSERT INTO audit_log_entries (id, payload, created_at) VALUES (%s, '{}', %s)"
    now = timezone.now()
    database.execute(insert, [uuid4(), now + YEAR])
    indexes = """
        SELECT replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes
        WHERE tablename = 'audit_log_entries' AND indexname NOT LIKE '%pkey'
    """
    defined = set(database.execute(indexes).fetchall())
    migrate(fresh_database_url, "core", "0008")
    database.execute(insert, [uuid4(), now])
    database.execute(insert, [uuid4(), None])
    before = database.execute(rows).fetchall()
    assert len(before) == 3
    database.execute("GRANT SELECT ON audit_log_entries TO PUBLIC")

    migrate(fresh_database_url)
    first, *later = database.execute(rows).fetchall()
    assert (first[0], first[2]) == (before[-1][0], datetime(1970, 1, 1, tzinfo=UTC))
    assert later == before[:-1]
    assert set(database.execute(indexes).fetchall()) == defined
    grants = (
        "SELECT privilege_type FROM information_schema.role_table_grants WHERE grantee = 'PUBLIC' AND table_name = %s"
    )
    assert database.execute(grants, ["audit_log_entries"]).fetchall() == [("SELECT",)]
    valid = (
        "SELECT bool_and(indisvalid) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relname LIKE 'audit_log%'"
    )
    assert database.execute(valid).fetchone() == (True,)


def test_an_interrupted_upgrade_leaves_the_former_version_working(
    fresh_database_url: str, database: psycopg.Connection[Any]
) -> None:
    migrate(fresh_database_url, "core", "0008")
    # The index of the migration cannot be built.
    key = "SELECT conname FROM pg_constraint WHERE conrelid = 'audit_log_entries'::regclass AND contype = 'p'"
    [(name,)] = database.execute(key).fetchall()
    database.execute(f"ALTER TABLE audit_log_entries DROP CONSTRAINT {name}")
    same_id = uuid4()
    for _ in range(2):
        insert = "INSERT INTO audit_log_entries (id, payload, created_at) VALUES (%s, '{}', '2026-01-01')"
        database.execute(insert, [same_id])
    with pytest.raises(subprocess.CalledProcessError):
        migrate(fresh_database_url)
    constraints = "SELECT count(*) FROM pg_constraint WHERE conrelid = 'audit_log_entries'::regclass AND contype = 'c'"
    assert database.execute(constraints).fetchone() == (0,)


@pytest.mark.django_db
def test_a_month_detached_by_hand_prevents_no_later_one(next_year: datetime) -> None:
    partitions.maintain(at=next_year)
    detached = existing()[2]
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE audit_log_entries DETACH PARTITION {detached.name}")
    partitions.maintain(at=next_year + YEAR)
    assert detached.name not in {partition.name for partition in existing()}
    assert existing()[-1].end > next_year + YEAR
