"""Errors of the database while a job is stored."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection, connections, transaction

from authsvc.api.exception_handler import to_api_error
from mailer.delivery import tasks


def defer_on_a_lost_connection() -> None:
    other = connections.create_connection("default")
    try:
        with transaction.atomic():
            with connection.cursor() as cursor, other.cursor() as killer:
                cursor.execute("SELECT pg_backend_pid()")
                killer.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
            tasks.discard.defer(filler="x", to_user=None, to_address="ada@example.com")
    finally:
        other.close()
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_is_an_error_of_the_database() -> None:
    with pytest.raises(OperationalError) as caught:
        defer_on_a_lost_connection()
    assert to_api_error(caught.value).status == 503
