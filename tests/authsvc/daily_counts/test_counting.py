"""Daily counts: each row counts once, in bounded batches, whenever the job runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from authsvc import daily_counts
from authsvc.daily_counts import Series, counting
from authsvc.daily_counts.counting import Source
from authsvc.daily_counts.models import CountProgress, DailyCount
from authsvc.models import AuditLogEntry
from mailer.models import Attempt, AttemptOutcome
from tests import factories

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
LOGIN = {"action": "login"}


def refusal(error_code: str) -> dict[str, object]:
    return {"action": "sign_in_refused", "traits": {"error_code": error_code}}


def make_entries(*payloads: Mapping[str, object] | None, at: datetime) -> None:
    for payload in payloads:
        AuditLogEntry.objects.create(payload=payload, created_at=at)


def totals(at: datetime = NOON) -> dict[tuple[str, str], int]:
    """(Series, label) → the sum of the counts."""
    return {key: sum(numbers) for key, numbers in daily_counts.read_counts(at=at).counts.items()}


def count(at: datetime = NOON) -> int:
    return daily_counts.count_rows(at=at, seconds=60)


def set_batch_size(monkeypatch: pytest.MonkeyPatch, size: int) -> Source:
    """Make the audit trail, in batches of `size` rows, the only source."""
    [entries] = [source for source in counting.sources if source.table == "audit_log_entries"]
    source = dataclasses.replace(entries, batch_size=size)
    monkeypatch.setattr(counting, "sources", [source])
    return source


def test_rows_count_on_their_day_in_utc_with_their_label() -> None:
    midnight = datetime(2026, 3, 10, tzinfo=UTC)
    make_entries(LOGIN, LOGIN, refusal("user_banned"), {"action": "logout"}, None, at=midnight)
    make_entries(LOGIN, refusal("invalid_credentials"), at=midnight - timedelta(microseconds=1))
    make_entries(LOGIN, at=midnight - timedelta(days=29))
    make_entries(LOGIN, at=midnight - timedelta(days=29, microseconds=1))
    factories.make_plain_users(1, at=NOON - timedelta(hours=1))
    for newly_counted in (9, 0):
        assert count() == newly_counted
        counts = daily_counts.read_counts(at=NOON)
        assert counts.behind_since is None
        assert (counts.days[0].isoformat(), counts.days[-1].isoformat()) == ("2026-02-09", "2026-03-10")
        sign_ins = counts.of(Series.SIGN_INS)[""]
        assert (sign_ins[0], sign_ins[-2], sign_ins[-1], sum(sign_ins)) == (1, 1, 2, 4)
        refused = counts.of(Series.REFUSED_SIGN_INS)
        assert {label: numbers[-2:] for label, numbers in refused.items()} == {
            "invalid_credentials": (1, 0),
            "user_banned": (0, 1),
        }
        assert counts.of(Series.SIGN_UPS)[""][-1] == 1


def test_rows_count_once_while_the_job_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    count()
    make_entries(LOGIN, LOGIN, at=NOON)
    times = [NOON + timedelta(minutes=10), NOON + timedelta(minutes=20)]
    execute = psycopg.Cursor.execute

    def execute_after_the_job(cursor: psycopg.Cursor, *arguments: Any, **options: Any) -> psycopg.Cursor:
        if times:
            at = times.pop(0)
            with monkeypatch.context() as job:
                job.setattr(psycopg.Cursor, "execute", execute)
                count(at)
                make_entries(LOGIN, at=at)
        return execute(cursor, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute_after_the_job)
    assert totals(NOON + timedelta(hours=1)) == {("sign_ins", ""): AuditLogEntry.objects.count()}
    assert times == []


def test_messages_count_by_their_last_outcome() -> None:
    for outcome in (AttemptOutcome.DELIVERED, AttemptOutcome.RETRY, AttemptOutcome.FAILED, AttemptOutcome.FAILED):
        Attempt.objects.create(
            message_id=UUID(int=1), channel="email", kind="invite", attempt=1, outcome=outcome, created_at=NOON
        )
    assert totals() == {(Series.MESSAGES_SENT, ""): 1, (Series.MESSAGES_FAILED, ""): 2}


def test_recent_rows_are_counted_at_once_and_by_the_job_when_they_have_settled() -> None:
    make_entries(LOGIN, at=NOON - timedelta(seconds=30))
    assert totals() == {(Series.SIGN_INS, ""): 1}
    assert count() == 0
    assert not DailyCount.objects.exists()
    # The transaction of an older entry is committed later than that of the newer one.
    make_entries(LOGIN, at=NOON - timedelta(seconds=100))
    assert totals() == {(Series.SIGN_INS, ""): 2}
    later = NOON + counting.SETTLING_TIME
    assert count(later) == 2
    assert totals(later) == {(Series.SIGN_INS, ""): 2}
    assert count(later + timedelta(minutes=1)) == 0
    assert CountProgress.objects.get(source="audit_log_entries").counted_until == NOON + timedelta(minutes=1)


def test_many_rows_of_one_time_are_counted_once_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    set_batch_size(monkeypatch, 3)
    count()
    make_entries(*[LOGIN] * 10, at=NOON + timedelta(hours=1))
    later = NOON + timedelta(hours=2)
    assert daily_counts.count_rows(at=later, seconds=0) == 3
    counts = daily_counts.read_counts(at=later)
    assert counts.behind_since == NOON + timedelta(hours=1)
    assert sum(counts.of(Series.SIGN_INS)[""]) == 6
    assert count(later) == 7
    assert DailyCount.objects.get().count == 10
    assert daily_counts.read_counts(at=later).behind_since is None


def test_rows_before_the_first_run_are_counted_from_the_newest_to_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    source = set_batch_size(monkeypatch, 2)
    for hours in (1, 2, 3, 3, 3):
        make_entries(LOGIN, at=NOON - timedelta(hours=hours))
    make_entries(LOGIN, at=NOON - timedelta(days=40))
    assert counting.count_later_rows(source, at=NOON) == 0
    for number, missing_before, total in ((2, 2, 2), (2, 3, 4), (1, None, 5), (0, None, 5)):
        assert counting.count_earlier_rows(source, at=NOON) == number
        counts = daily_counts.read_counts(at=NOON)
        assert counts.missing_before == (missing_before and NOON - timedelta(hours=missing_before))
        assert counts.behind_since is None
        assert sum(counts.of(Series.SIGN_INS)[""]) == total


def test_without_recent_rows_the_counts_say_until_when_they_are_complete() -> None:
    count()
    counts = daily_counts.read_counts(at=NOON, includes_recent=False)
    assert counts.behind_since == NOON - counting.SETTLING_TIME


def test_a_pause_longer_than_the_charts_skips_older_rows() -> None:
    count()
    make_entries(LOGIN, at=NOON + timedelta(days=1))
    make_entries(LOGIN, at=NOON + timedelta(days=60))
    later = NOON + timedelta(days=61)
    assert count(later) == 1
    assert totals(later) == {(Series.SIGN_INS, ""): 1}


def test_counts_stay_after_the_deletion_of_rows_and_are_renewed_after_a_reset() -> None:
    make_entries(LOGIN, LOGIN, at=NOON - timedelta(hours=1))
    count()
    AuditLogEntry.objects.first().delete()  # type: ignore[union-attr]
    assert totals() == {(Series.SIGN_INS, ""): 2}
    daily_counts.reset()
    count()
    assert totals() == {(Series.SIGN_INS, ""): 1}


@pytest.mark.parametrize("is_later", [True, False])
@pytest.mark.parametrize("source", counting.sources, ids=lambda source: source.table)
def test_the_next_rows_are_found_by_an_index(source: daily_counts.Source, is_later: bool) -> None:
    at = timezone.now()
    rows, sign = (source.later_rows(), ">") if is_later else (source.earlier_rows(), "<")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {rows}", (at - timedelta(days=1), UUID(int=0), at))
        plan = "\n".join(line for [line] in cursor.fetchall())
    assert f"Index Cond: ((ROW(created_at, id) {sign} ROW(" in plan
    assert "Sort  (" not in plan
