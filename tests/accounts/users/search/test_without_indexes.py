"""The index worker on a PostgreSQL without the extension, such as the embedded one."""

from __future__ import annotations

import logging

import pytest
from django.db import connection

from accounts.users.search import indexes
from tests.conftest import ChangeConfig

pytestmark = pytest.mark.django_db


def test_a_missing_extension_is_logged(auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'")
        if cursor.rowcount:
            pytest.skip("this PostgreSQL has pg_trgm")
    auth_config(index_worker={"ensure_user_search": True})
    with caplog.at_level(logging.WARNING):
        indexes.ensure()
    assert [record.getMessage() for record in caplog.records] == [
        "search indexes need the extension pg_trgm, which this database does not have"
    ]
