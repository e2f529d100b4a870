"""Cleanup rules: the rows that each one deletes and keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.db.models import Model
from django.utils import timezone

from accounts.models import CeremonyType, Factor, FactorChallenge, FactorStatus, FactorType, PasskeyChallenge, User
from authsvc import tasks
from authsvc.db.postgresql import response_timeout
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from authsvc.models import RateLimit
from oauthproviders.models import ClientState
from tests import factories
from tests.conftest import ChangeConfig
from tokens.models import FlowState, LegacyRefreshToken, Session

pytestmark = pytest.mark.django_db

AT = timezone.now()
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LIMITS = {"timebox": timedelta(days=7), "inactivity_timeout": timedelta(days=2)}


def session(**columns: Any) -> Session:
    return factories.make_session(factories.make_user(), at=AT - HOUR, **columns).session


def legacy(*, used: datetime, revoked: bool = False, **columns: Any) -> LegacyRefreshToken:
    """The only refresh token of an imported session that is not converted."""
    made = factories.make_legacy_tokens(count=1, active=not revoked, at=AT - HOUR, **columns)[0]
    LegacyRefreshToken.objects.filter(pk=made.pk).update(updated_at=used)
    return made


def import_session(*, used: datetime, **columns: Any) -> Session:
    session = legacy(used=used, **columns).session
    assert session is not None
    return session


def factor(status: FactorStatus, *, created_at: datetime) -> Factor:
    return Factor.objects.create(
        id=uuid4(),
        user=factories.make_user(),
        factor_type=FactorType.TOTP,
        status=status,
        created_at=created_at,
        updated_at=created_at,
    )


def challenge(*, created_at: datetime) -> FactorChallenge:
    challenged = factor(FactorStatus.VERIFIED, created_at=AT - 2 * DAY)
    return FactorChallenge.objects.create(factor=challenged, created_at=created_at)


def passkey_challenge(*, expires_at: datetime) -> PasskeyChallenge:
    return PasskeyChallenge.objects.create(
        challenge_type=CeremonyType.AUTHENTICATION, session_data={}, expires_at=expires_at
    )


def client_state(*, created_at: datetime) -> ClientState:
    return ClientState.objects.create(provider_type="x", code_verifier="v" * 43, created_at=created_at)


def flow(*, created_at: datetime) -> FlowState:
    return factories.make_flow(factories.make_user(), created_at=created_at)


def provider_flow(*, created_at: datetime) -> FlowState:
    return FlowState.objects.create(provider_type="github", authentication_method="oauth", created_at=created_at)


def user(**columns: Any) -> User:
    return factories.make_user(**columns)


Make = Callable[[], Model]
CASES: dict[str, tuple[Make, Make]] = {
    "a revoked token, after a day": (
        lambda: legacy(used=AT - DAY - HOUR, revoked=True),
        lambda: legacy(used=AT - DAY + HOUR, revoked=True),
    ),
    "a session with an end, three days after it": (
        lambda: session(not_after=AT - 3 * DAY - HOUR),
        lambda: session(not_after=AT - 3 * DAY + HOUR),
    ),
    "a flow, after a day": (
        lambda: flow(created_at=AT - DAY - HOUR),
        lambda: flow(created_at=AT - DAY + HOUR),
    ),
    "a flow that waits for a provider, after an hour": (
        lambda: provider_flow(created_at=AT - HOUR - MINUTE),
        lambda: provider_flow(created_at=AT - HOUR + MINUTE),
    ),
    "client states of provider flows, after an hour": (
        lambda: client_state(created_at=AT - HOUR - MINUTE),
        lambda: client_state(created_at=AT - HOUR + MINUTE),
    ),
    "a challenge of a factor, after a day": (
        lambda: challenge(created_at=AT - DAY - HOUR),
        lambda: challenge(created_at=AT - DAY + HOUR),
    ),
    "a challenge of a passkey, at its end": (
        lambda: passkey_challenge(expires_at=AT - HOUR),
        lambda: passkey_challenge(expires_at=AT + HOUR),
    ),
    "a factor never verified, after a day": (
        lambda: factor(FactorStatus.UNVERIFIED, created_at=AT - DAY - HOUR),
        lambda: factor(FactorStatus.UNVERIFIED, created_at=AT - DAY + HOUR),
    ),
    "not a verified one": (
        lambda: factor(FactorStatus.UNVERIFIED, created_at=AT - 2 * DAY),
        lambda: factor(FactorStatus.VERIFIED, created_at=AT - 2 * DAY),
    ),
    "an anonymous user, after thirty days": (
        lambda: user(email=None, is_anonymous=True, created_at=AT - 30 * DAY - HOUR),
        lambda: user(email=None, is_anonymous=True, created_at=AT - 30 * DAY + HOUR),
    ),
    "not one who is known": (
        lambda: user(email=None, is_anonymous=True, created_at=AT - 40 * DAY),
        lambda: user(created_at=AT - 40 * DAY),
    ),
    "a session older than any may become, a day later": (
        lambda: session(created_at=AT - 8 * DAY - HOUR, refreshed_at=AT - HOUR),
        lambda: session(created_at=AT - 8 * DAY + HOUR, refreshed_at=AT - HOUR),
    ),
    "a session not used, a day after its time-out": (
        lambda: session(created_at=AT - 6 * DAY, refreshed_at=AT - 3 * DAY - HOUR),
        lambda: session(created_at=AT - 6 * DAY, refreshed_at=AT - 3 * DAY + HOUR),
    ),
    "a session never refreshed, a day after its time-out": (
        lambda: session(created_at=AT - 3 * DAY - HOUR),
        lambda: session(created_at=AT - 3 * DAY + HOUR),
    ),
    "an imported session, counted from its live token": (
        lambda: import_session(created_at=AT - 6 * DAY, used=AT - 3 * DAY - HOUR),
        lambda: import_session(created_at=AT - 6 * DAY, used=AT - 3 * DAY + HOUR),
    ),
}


def is_there(row: Model) -> bool:
    return type(row)._default_manager.filter(pk=row.pk).exists()


@pytest.fixture
def limits(auth_config: ChangeConfig) -> None:
    auth_config(sessions=LIMITS, signup={"anonymous_enabled": True})


@pytest.mark.parametrize("case", CASES)
def test_expired_rows_are_deleted_and_newer_ones_kept(limits: None, case: str) -> None:
    make_old, make_young = CASES[case]
    old, young = make_old(), make_young()
    assert cleanup.run(at=AT) >= 1
    assert (is_there(old), is_there(young)) == (False, True)
    assert cleanup.run(at=AT) == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("case", CASES)
def test_locked_rows_are_skipped(limits: None, case: str) -> None:
    old = CASES[case][0]()
    other = connections.create_connection("default")
    other.set_autocommit(autocommit=False)
    try:
        with other.cursor() as cursor:
            cursor.execute(f"SELECT FROM {old._meta.db_table} WHERE id = %s FOR UPDATE", [old.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
        assert cleanup.run(at=AT) == 0
        assert is_there(old)
    finally:
        other.rollback()  # answered when the lock is gone; a close is not
        other.close()
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert cleanup.run(at=AT) == 1


def test_refresh_tokens_of_expired_sessions_are_revoked(limits: None) -> None:
    over = legacy(used=AT - 2 * DAY, not_after=AT - DAY - HOUR)
    ending = legacy(used=AT - 2 * DAY, not_after=AT - DAY + HOUR)
    endless = legacy(used=AT - 2 * DAY)
    assert cleanup.run(at=AT) == 1
    revoked = LegacyRefreshToken.objects.filter(revoked=True)
    assert [token.pk for token in revoked] == [over.pk]
    assert {ending.pk, endless.pk} == set(LegacyRefreshToken.objects.filter(revoked=False).values_list("pk", flat=True))
    assert revoked.filter(updated_at__gte=AT).exists(), "it is kept for another day"


@pytest.mark.parametrize(
    "case",
    [
        "an anonymous user, after thirty days",
        "a session older than any may become, a day later",
        "a session not used, a day after its time-out",
        "a session never refreshed, a day after its time-out",
        "an imported session, counted from its live token",
    ],
)
def test_sessions_without_a_time_limit_are_kept(case: str) -> None:
    old = CASES[case][0]()
    cleanup.run(at=AT)
    assert is_there(old)


@pytest.mark.parametrize(("table", "most"), [("refresh_tokens", 100), ("sessions", 10)])
def test_one_run_deletes_a_limited_number_of_rows(table: str, most: int) -> None:
    rule = next(rule for rule in cleanup.rules if rule.table == table and not rule.is_mandatory)
    with connection.cursor() as cursor:
        if table == "sessions":
            owner = user()
            cursor.execute(
                "INSERT INTO sessions (id, user_id, not_after) SELECT gen_random_uuid(), %s, %s"
                " FROM generate_series(1, %s)",
                [owner.pk, AT - 9 * DAY, most + 5],
            )
        else:
            cursor.execute(
                "INSERT INTO refresh_tokens (token, revoked, updated_at) SELECT n::text, true, %s"
                " FROM generate_series(1, %s) n",
                [AT - 9 * DAY, most + 5],
            )
    assert [rule.run(at=AT) for _ in range(3)] == [most, 5, 0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "condition", ["t.no_such_column < %s", "pg_sleep(1) IS NULL AND t.created_at < %s"], ids=["error", "timeout"]
)
def test_a_failed_rule_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, condition: str
) -> None:
    old = flow(created_at=AT - 2 * DAY)
    broken = CleanupRule(table="flow_state", condition=condition, parameters=lambda at: (at,))
    monkeypatch.setattr(cleanup, "rules", [broken, *cleanup.rules])

    def run() -> int:
        response_timeout.limit_this_thread(0.5)
        try:
            return cleanup.run(at=AT)
        finally:
            connection.close()

    with caplog.at_level(logging.DEBUG, logger="authsvc"), ThreadPoolExecutor() as threads:
        assert threads.submit(run).result() == 1
    assert not is_there(old)
    records = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("WARNING", "database cleanup failed") in records
    assert ("DEBUG", "cleaned up expired or stale rows") in records
    assert [vars(record)["affected_rows"] for record in caplog.records if "stale" in record.getMessage()] == [1]


@pytest.mark.parametrize(("enabled", "left"), [(False, 1), (True, 0)])
def test_cleanup_of_sessions_and_users_can_be_disabled(auth_config: ChangeConfig, enabled: bool, left: int) -> None:
    session(not_after=timezone.now() - 4 * DAY)
    auth_config(database={"cleanup_enabled": enabled})
    tasks.clean_up()
    assert Session.objects.count() == left


def test_expired_rate_limits_are_always_deleted() -> None:
    for key, age in (("old", 2 * DAY), ("young", HOUR)):
        RateLimit.objects.create(
            bucket="otp", key=key, tokens=1, created_at=timezone.now() - age, updated_at=timezone.now() - age
        )
    tasks.clean_up()
    assert list(RateLimit.objects.values_list("key", flat=True)) == ["young"]
