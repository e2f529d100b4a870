"""Errors of the database while a job is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, connections, transaction

from authsvc import messaging
from authsvc.api.exception_handler import to_api_error
from authsvc.messaging import Email, EmailType
from mailer.delivery import tasks


def defer_job() -> None:
    tasks.discard.defer(filler="x", to_user=None, to_address="ada@example.com")


def send_email() -> None:
    messaging.send(Email(type=EmailType.REAUTHENTICATION, to="ada@example.com", variables={"Token": "987654"}))


def run_in_an_ended_transaction(change: Callable[[], None]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '50ms'")
    try:
        with transaction.atomic():
            connection.cursor().execute("SELECT 1")
            time.sleep(0.3)
            change()
    finally:
        connection.close()


def run_on_a_lost_connection(change: Callable[[], None]) -> None:
    other = connections.create_connection("default")
    try:
        with transaction.atomic():
            with connection.cursor() as cursor, other.cursor() as killer:
                cursor.execute("SELECT pg_backend_pid()")
                killer.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
            change()
    finally:
        other.close()
        connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", [defer_job, send_email])
@pytest.mark.parametrize("run", [run_on_a_lost_connection, run_in_an_ended_transaction])
def test_a_lost_connection_is_an_error_of_the_database(
    run: Callable[[Callable[[], None]], None], change: Callable[[], None]
) -> None:
    with pytest.raises(DatabaseError) as caught:
        run(change)
    assert to_api_error(caught.value).status == 503
