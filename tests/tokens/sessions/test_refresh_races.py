"""Concurrent refreshes of one session."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from accounts.models import User
from authsvc.db.sql import fetch_rows
from tests import factories
from tests.concurrency import lock_session, run_concurrently, status_counts
from tests.conftest import Api, ApiResponse, ChangeConfig
from tests.tokens.token_requests import (
    REFRESH_TOKEN_NOT_FOUND,
    REFRESH_TOKEN_REUSED,
    audited_actions,
    error_of,
    refresh,
    rotate,
)
from tokens.models import LegacyRefreshToken, Session
from tokens.sessions import refresh as session_refresh

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_request_limits")]

# Other databases of the server belong to other tests.
_LOCK_WAITS = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.mark.usefixtures("no_refresh_timeout")
def test_concurrent_refreshes_return_the_same_token(api: Api) -> None:
    signed_in = factories.make_session()

    responses = run_concurrently(*[lambda: refresh(api, signed_in.refresh_token)] * 32)

    assert status_counts(responses) == {200: 32}
    assert {response.json()["refresh_token"] for response in responses} == {
        factories.refresh_token(signed_in.session, 1)
    }
    signed_in.session.refresh_from_db()
    assert signed_in.session.refresh_token_counter == 1
    assert audited_actions(signed_in.user) == ["token_refreshed"] * 32


@pytest.mark.usefixtures("no_refresh_timeout")
def test_concurrent_refreshes_convert_a_legacy_session_once(api: Api) -> None:
    # Several rounds: a request that reads before the conversion and locks after it is rare.
    for _ in range(4):
        legacy_tokens = factories.make_legacy_tokens()
        user = User.objects.get(sessions__legacy_tokens=legacy_tokens[1])

        responses = run_concurrently(*[lambda: refresh(api, legacy_tokens[1].token or "")] * 20)  # noqa: B023

        session = Session.objects.get(user=user)
        assert status_counts(responses) == {200: 20}
        assert {response.json()["refresh_token"] for response in responses} == {factories.refresh_token(session, 0)}
        assert session.refresh_token_counter == 0
        assert LegacyRefreshToken.objects.filter(session=session, revoked=True).count() == 2
        assert audited_actions(user) == [*["token_refreshed"] * 20, "token_revoked"]


@pytest.mark.usefixtures("no_refresh_timeout")
def test_concurrent_refreshes_with_single_session_per_user(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(sessions={"single_per_user": True})
    older = factories.make_session()
    newer = factories.make_session(older.user)

    responses = run_concurrently(
        *[lambda: refresh(api, older.refresh_token)] * 10,
        *[lambda: refresh(api, newer.refresh_token)] * 10,
    )

    assert status_counts(responses[:10]) == {400: 10}
    assert {error_of(response)[1] for response in responses[:10]} == {"session_expired"}
    assert status_counts(responses[10:]) == {200: 10}
    assert {response.json()["refresh_token"] for response in responses[10:]} == {
        factories.refresh_token(newer.session, 1)
    }


@pytest.mark.usefixtures("no_refresh_timeout")
def test_reuse_revokes_session_during_concurrent_refreshes(api: Api) -> None:
    session = factories.make_session(refresh_token_counter=2).session
    reused, newest = (factories.refresh_token(session, counter) for counter in (0, 2))

    responses = run_concurrently(*[lambda: refresh(api, reused)] * 4, *[lambda: refresh(api, newest)] * 12)

    assert not Session.objects.exists()
    errors = {error_of(response) for response in responses if response.status_code != 200}
    assert errors <= {REFRESH_TOKEN_REUSED, REFRESH_TOKEN_NOT_FOUND}
    assert REFRESH_TOKEN_REUSED in errors
    assert 200 not in status_counts(responses[:4])
    assert {response.json()["refresh_token"] for response in responses[4:] if response.status_code == 200} <= {
        factories.refresh_token(session, 3)
    }


@pytest.mark.usefixtures("no_refresh_timeout")
def test_concurrent_logout_and_refreshes_leave_no_session(api: Api) -> None:
    signed_in = factories.make_session()

    responses = run_concurrently(
        *[lambda: api.post("/logout", bearer=signed_in.access_token)] * 4,
        *[lambda: refresh(api, signed_in.refresh_token)] * 12,
    )

    assert not Session.objects.exists()
    assert 204 in status_counts(responses[:4])
    assert set(status_counts(responses[:4])) <= {204, 403}
    assert {error_of(response) for response in responses[4:] if response.status_code != 200} <= {
        REFRESH_TOKEN_NOT_FOUND
    }


def test_refresh_of_locked_session_gets_409_without_waiting_in_the_database(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock that runs a second per reading: the refresh retries for five seconds.
    readings = itertools.count()
    monkeypatch.setattr(session_refresh, "time", SimpleNamespace(monotonic=readings.__next__, sleep=time.sleep))
    signed_in = factories.make_session()
    lock_waits: list[Any] = []

    def observe_locks() -> ApiResponse:
        for _ in range(20):
            time.sleep(0.02)
            lock_waits.extend(fetch_rows(_LOCK_WAITS, ()))
        return api.get("/health")

    with lock_session(signed_in.session):
        response, _ = run_concurrently(lambda: refresh(api, signed_in.refresh_token), observe_locks)

    assert error_of(response) == (
        409,
        "conflict",
        "Too many concurrent token refresh requests on the same session or refresh token",
    )
    assert next(readings) == 6  # 0 sets the deadline 5, and 1 to 4 precede attempts
    assert lock_waits == []
    assert rotate(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


@pytest.mark.usefixtures("no_refresh_timeout")
def test_refresh_retries_while_session_is_locked(api: Api) -> None:
    signed_in = factories.make_session()
    with lock_session(signed_in.session, seconds=0.3):
        assert rotate(api, signed_in.refresh_token) == factories.refresh_token(signed_in.session, 1)


@pytest.mark.usefixtures("no_refresh_timeout")
def test_refresh_with_legacy_token_retries_while_session_is_locked(api: Api) -> None:
    legacy_tokens = factories.make_legacy_tokens()
    session = Session.objects.get()
    with lock_session(session, seconds=0.3):
        token = rotate(api, legacy_tokens[1].token or "")
    assert token == factories.refresh_token(Session.objects.get(), 0)
