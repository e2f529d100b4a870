"""Errors of the database that another attempt may avoid."""

from __future__ import annotations

import pytest
from django.db import Error, OperationalError, connection, transaction

from authsvc import conf
from authsvc.api.exception_handler import is_unavailable, to_api_error
from authsvc.db import postgresql
from authsvc.db.postgresql.base import DatabaseWrapper


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("before", "statement", "unavailable"),
    [
        ("SET TRANSACTION READ ONLY", "CREATE TABLE refused ()", True),
        ("SELECT 1", "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$", True),
        ("SELECT 1", "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$", True),
        ("SELECT 1", "DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$", True),
        ("SET LOCAL statement_timeout = 100", "SELECT pg_sleep(9)", False),
        ("SELECT 1", "SELECT 1 / 0", False),
        ("SELECT 1", "SELECT no_such_column", False),
    ],
)
def test_errors_of_an_unavailable_database(before: str, statement: str, unavailable: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(before)
        with pytest.raises(Error) as caught, transaction.atomic():
            cursor.execute(statement)
    assert is_unavailable(caught.value) is unavailable


@pytest.mark.django_db
def test_a_refused_connection_is_an_unavailable_database() -> None:
    settings = postgresql.settings_from(
        conf.Database(driver="postgres", url=conf.Secret("postgres://u:hidden@127.0.0.1:1,[::1]:1/auth"))
    )
    with pytest.raises(OperationalError) as caught:
        DatabaseWrapper({**connection.settings_dict, **settings}).ensure_connection()
    response = to_api_error(caught.value)
    assert (response.status, response.error_code, response.retry_after) == (503, "database_unavailable", 1)
    assert "hidden" not in str(caught.value)
