"""Errors of the database while a job is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import OperationalError, connection, connections, transaction

from authsvc import messaging
from authsvc.api.exception_handler import to_api_error
from authsvc.messaging import Email, EmailKind
from mailer.delivery import tasks


def defer_job() -> None:
    tasks.discard.defer(filler="x", to_user=None, to_address="ada@example.com")


def send_email() -> None:
    messaging.send(Email(kind=EmailKind.REAUTHENTICATION, to="ada@example.com", variables={"Token": "987654"}))


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
def test_a_lost_connection_is_an_error_of_the_database(change: Callable[[], None]) -> None:
    with pytest.raises(OperationalError) as caught:
        run_on_a_lost_connection(change)
    assert to_api_error(caught.value).status == 503
