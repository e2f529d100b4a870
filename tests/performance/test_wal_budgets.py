"""Limits the WAL that a refresh and a sign-in write. Raise a number only deliberately."""

from __future__ import annotations

from statistics import median

import pytest
from django.db import connection

from tests import factories
from tests.conftest import Api, ApiResponse

pytestmark = pytest.mark.django_db(transaction=True)

NUMBER = 30
MAX_REFRESH_BYTES = 975
"""Measured: 848, with a short name and address of the user."""
MAX_SIGN_IN_BYTES = 2_000
"""Measured: 1,741."""


@pytest.fixture(autouse=True)
def _server_counts_wal_of_connections(no_request_limits: None) -> None:
    if connection.pg_version < 180_000:  # type: ignore[attr-defined]
        pytest.skip("PostgreSQL counts the WAL of each connection since version 18")


class WrittenWal:
    """Bytes of WAL of each request, except those in which PostgreSQL wrote whole pages after a checkpoint."""

    def __init__(self) -> None:
        self.bytes: list[int] = []
        self._before = _read_counters()

    def add_request(self, response: ApiResponse) -> None:
        assert response.status_code == 200, response.content
        written, pages = _read_counters()
        if pages == self._before[1]:
            self.bytes.append(written - self._before[0])
        self._before = written, pages


def _read_counters() -> tuple[int, int]:
    """Bytes and whole pages of this connection, which those of other tests do not change."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT wal_bytes, wal_fpi FROM pg_stat_get_backend_wal(pg_backend_pid())")
        ((written, pages),) = cursor.fetchall()
    return int(written), pages


def test_refresh(api: Api) -> None:
    session = factories.make_session(refresh_token_counter=5).session
    token = factories.refresh_token(session, 5)
    wal = WrittenWal()
    for _ in range(NUMBER):
        response = api.post("/token?grant_type=refresh_token", {"refresh_token": token})
        wal.add_request(response)
        token = response.json()["refresh_token"]
    assert len(wal.bytes) > NUMBER / 2
    assert median(wal.bytes) <= MAX_REFRESH_BYTES


def test_sign_in(api: Api) -> None:
    body = {"email": factories.make_user().email, "password": factories.PASSWORD}
    wal = WrittenWal()
    for _ in range(NUMBER):
        wal.add_request(api.post("/token?grant_type=password", body))
    assert len(wal.bytes) > NUMBER / 2
    assert median(wal.bytes) <= MAX_SIGN_IN_BYTES
