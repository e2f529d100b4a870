"""The log of statements: off by default, and without texts that may be secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from authsvc.conf import AuthConfig
from authsvc.db import sql
from authsvc.observability import logs
from tests.factories import make_user

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

SQL = "SELECT %s::int, %s::text, %s::uuid, %s::timestamptz, %s::text[], %s::bytea, %s::bool, %s::text"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ARGUMENTS = (7, "a code", UUID(int=1), NEW_YEAR, ["a", "bc"], b"key", True, None)


@pytest.fixture
def logged(auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], list[Any]]]:
    """`logged("all")` runs a statement with this setting on a new connection; returns its log records."""
    caplog.set_level(logging.INFO)

    def run(setting_value: str) -> list[Any]:
        connection.close()
        auth_config(logging={"sql": setting_value})
        sql.fetch_rows(SQL, ARGUMENTS)
        return [record for record in caplog.records if record.name == "authsvc.sql" and record.msg == "%s"]

    yield run
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_statements_are_not_logged_by_default(logged: Callable[[str], list[Any]]) -> None:
    assert logged("none") == []


@pytest.mark.django_db(transaction=True)
def test_the_statement_is_logged_with_component_sql(logged: Callable[[str], list[Any]]) -> None:
    (record,) = [entry for entry in logged("statement") if "bytea" in entry.getMessage()]
    assert (record.levelno, record.component, record.getMessage()) == (logging.INFO, "sql", SQL)
    assert not hasattr(record, "statement_args")


@pytest.mark.django_db(transaction=True)
def test_text_arguments_are_logged_by_length(logged: Callable[[str], list[Any]]) -> None:
    (record,) = [entry for entry in logged("all") if "bytea" in entry.getMessage()]
    texts = ["<str of 1>", "<str of 2>"]
    expected = [7, "<str of 6>", UUID(int=1), NEW_YEAR, texts, "<bytes of 3>", True, None]
    assert record.statement_args == expected
    written = json.loads(logs.JsonFormatter().format(record))
    assert written["args"][:2] == [7, "<str of 6>"]


@pytest.mark.django_db(transaction=True)
def test_statements_of_the_orm_are_logged(logged: Callable[[str], list[Any]], caplog: pytest.LogCaptureFixture) -> None:
    logged("all")
    make_user(email="ann@example.com")
    inserts = [record.getMessage() for record in caplog.records if "INSERT INTO" in record.getMessage()]
    assert inserts
    assert all("ann@example.com" not in str(vars(record)) for record in caplog.records)
