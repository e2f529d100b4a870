"""The dashboard: counts of today, rate-limited clients and configuration warnings."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import authsvc
from accounts.models import User
from authsvc import daily_counts, messaging
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.conf import Rate
from authsvc.console import dashboard
from authsvc.daily_counts import counting
from authsvc.daily_counts.models import CountProgress
from authsvc.db import read_replica
from authsvc.errors import EmailRateExceeded
from authsvc.messaging import Sender
from authsvc.models import AuditLogEntry
from authsvc.security import rate_limits
from mailer.delivery import tasks
from mailer.models import Attempt, AttemptOutcome
from tests import factories
from tests.authsvc.console.conftest import START, Console
from tests.conftest import ChangeConfig

pytestmark = pytest.mark.django_db


def shown(console: Console) -> dict[str, str]:
    """Label → number, as the start page shows them."""
    text = console.get().content.decode()
    return {label.strip(): count for count, label in re.findall(r"<strong>([^<]+)</strong>([^<]+)<", text)}


def test_todays_sign_ins_and_users_are_counted(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    yesterday = timezone.now() - timedelta(days=1, minutes=1)
    factories.make_user(at=yesterday)
    AuditLogEntry.objects.create(payload={"action": "login"}, created_at=yesterday)
    AuditLogEntry.objects.create(payload={"action": "logout"}, created_at=timezone.now())
    AuditLogEntry.objects.create(payload=None, created_at=timezone.now())
    stats = shown(console)
    assert stats["Sign-ins today"] == "1"
    assert stats["New users today"] == "1"
    factories.make_user()
    assert shown(console)["New users today"] == "2"


def chart(page: str, title: str) -> str:
    """The figure with this title."""
    [figure] = [part for part in re.findall(r"<figure.*?</figure>", page, re.DOTALL) if f"<h3>{title}</h3>" in part]
    return figure  # type: ignore[no-any-return]


def table(figure: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", figure, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def make_entry(*, at: datetime, **payload: object) -> None:
    AuditLogEntry.objects.create(payload=payload, created_at=at)


def test_an_empty_installation_has_empty_charts(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    page = console.text(START)
    for title in ("Refused sign-ins", "Messages"):
        figure = chart(page, title)
        assert "<strong>0</strong> in 30 days, <strong>0</strong> today" in figure
        assert "None in 30 days." in figure
        assert "<svg" not in figure
    sign_ins = chart(page, "Sign-ins")  # that of the operator, today
    assert sign_ins.count('class="bar solid"') == 1
    today = f"{timezone.now():%-d %b %Y}"
    assert table(sign_ins)[:3] == [["Day", "Total"], [today, "1"], [table(sign_ins)[2][0], "0"]]
    assert len(table(sign_ins)) == 31


def test_refused_sign_ins_are_stacked_by_cause(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    at = timezone.now()
    causes = ["otp_expired"] * 4 + ["user_banned"] * 3 + ["a", "b", "c", "<script>", "e"]
    for cause in causes:
        make_entry(at=at, action="sign_in_refused", traits={"error_code": cause})
    make_entry(at=at - timedelta(days=3), action="sign_in_refused")
    figure = chart(console.text(START), "Refused sign-ins")
    head, today, *earlier = table(figure)
    assert head[1:3] + head[-2:] == ["Wrong or expired code", "User banned", "Other causes", "Total"]
    assert (today[1:3], today[-1], earlier[2][-1]) == (["4", "3"], "12", "1")
    patterns = set(re.findall(r'class="bar (\w+)"', figure))
    assert len(patterns) == len(head) - 2 == 6
    assert "wrong or expired code: 4</li>" in figure
    assert "4 wrong or expired code, 3 user banned" in figure
    assert "<script>" not in figure
    assert re.search(r"<desc[^>]*>Refused sign-ins: 13 in 30 days, today 12; the most, 12, on ", figure)


def test_messages_are_stacked_by_outcome(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    for outcome in (AttemptOutcome.DELIVERED, AttemptOutcome.DELIVERED, AttemptOutcome.RETRY, AttemptOutcome.FAILED):
        Attempt.objects.create(
            message_id=operator.pk,
            channel="email",
            kind="invite",
            attempt=1,
            outcome=outcome,
            created_at=timezone.now(),
        )
    figure = chart(console.text(START), "Messages")
    assert table(figure)[0] == ["Day", "Sent", "Failed", "Total"]
    assert table(figure)[1][1:] == ["2", "1", "3"]
    assert 'fill="url(#pattern-stripes)"' in figure


def test_charts_without_a_stored_audit_trail_say_so(
    console: Console, operator: User, auth_config: ChangeConfig
) -> None:
    auth_config(audit={"disable_postgres": True})
    console.sign_in("op@example.com")
    page = console.text(START)
    for title in ("Sign-ins", "Refused sign-ins"):
        assert "AUTH_AUDIT_LOG_DISABLE_POSTGRES" in chart(page, title)
    assert "AUTH_AUDIT_LOG_DISABLE_POSTGRES" not in chart(page, "Sign-ups")


def test_slow_recent_counts_are_left_out_and_stated(
    console: Console, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.sign_in("op@example.com")
    at = timezone.now()
    make_entry(at=at - timedelta(minutes=10), action="login")
    daily_counts.count_rows(at=at, seconds=60)
    slow = daily_counts.Source(table="audit_log_entries", series="pg_sleep(2)::text")
    monkeypatch.setattr(counting, "sources", [slow])
    page = console.text(START)
    assert "<strong>1</strong> in 30 days" in chart(page, "Sign-ins")
    assert "the numbers are too low since" in page


def test_days_that_are_not_counted_yet_are_stated(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    daily_counts.count_rows(at=timezone.now(), seconds=60)
    assert "too low" not in console.text(START)
    counted_from = timezone.now() - timedelta(days=3)
    CountProgress.objects.filter(source="users").update(counted_from=counted_from, first_id=operator.pk)
    assert f"the numbers before {counted_from:%-d %B, %H:%M} are too low" in console.text(START)


def test_slow_counts_are_left_out_and_stated(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE daily_counts")
        cursor.execute(
            "CREATE VIEW daily_counts AS SELECT current_date AS day, '' AS series, '' AS label, 1::bigint AS count"
            " FROM pg_sleep(2)"
        )
    page = console.text(START)
    assert "The counts took too long and are left out." in page
    assert "<figure" not in page
    assert "Message quotas" in page


def test_quotas_show_the_messages_that_are_left(console: Console, operator: User, auth_config: ChangeConfig) -> None:
    auth_config(
        limits={
            "email_sent": Rate(events=2),
            "sms_sent": Rate(events=5, over=timedelta(minutes=10)),
            "operator_messages": Rate(events=1_000),
        }
    )
    console.sign_in("op@example.com")
    messaging.consume_email_quota(Sender(("192.0.2.1",)))
    messaging.consume_email_quota(Sender(("192.0.2.2",)))
    messaging.consume_sms_quota(messaging.OPERATORS)
    with pytest.raises(EmailRateExceeded):
        messaging.consume_email_quota(Sender(("192.0.2.3",)))
    rows = {row[0]: row[1:3] for row in table(console.text(START).replace(' class="alarming"', "")) if row}
    assert rows["Emails of clients"] == ["0 (used up)", "2 an hour"]
    assert rows["Emails of administrators"] == ["2", "2 an hour"]
    assert rows["Emails of operators"] == ["1,000", "1,000 an hour"]
    assert rows["Text messages of clients"] == ["5", "5/10m0s"]
    assert rows["Text messages of operators"] == ["999", "1,000 an hour"]


def test_the_queue_shows_its_oldest_job(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    assert "<dt>Oldest waiting job</dt><dd>none</dd>" in console.text(START)
    for _ in range(3):
        tasks.discard.defer(filler="")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_events SET at = now() - interval '5 minutes 30 seconds'")
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'failed' WHERE id = (SELECT max(id) FROM procrastinate_jobs)"
        )
    page = console.text(START)
    assert "<dt>Oldest waiting job</dt><dd>waits for 5 min</dd>" in page
    assert "<dt>Jobs due</dt><dd>2</dd>" in page
    assert "<dt>Failed</dt><dd>1</dd>" in page
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET scheduled_at = now() - interval '2 days' WHERE status = 'todo'")
    assert "<dd>waits for 2 d</dd>" in console.text(START)


def test_rate_limited_clients_are_listed_with_the_end_of_the_limit(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    assert "No client is rate-limited." in console.get().content.decode()
    for _ in range(30):
        throttling.consume(Bucket.VERIFY, key="192.0.2.77")
    throttling.consume(Bucket.VERIFY, key="192.0.2.78")
    rate_limits.allow_once(group="passwordless", key="ada@example.com", interval=timedelta(hours=1))
    at = timezone.now()
    [client] = dashboard.rate_limited_clients(at)
    assert (client.bucket, client.client) == ("Verify", "192.0.2.77")
    assert at < client.until < at + timedelta(seconds=11)
    text = console.get().content.decode()
    assert "192.0.2.77" in text
    assert "192.0.2.78" not in text
    assert "ada@example.com" not in text
    assert dashboard.rate_limited_clients(client.until) == []


def test_a_bucket_without_refill_is_limited_until_it_expires(auth_config: ChangeConfig) -> None:
    auth_config(limits={"anonymous_users": 1.5})
    throttling.consume(Bucket.ANONYMOUS_SIGN_INS, key="192.0.2.1")
    at = timezone.now()
    [client] = dashboard.rate_limited_clients(at)
    assert timedelta(minutes=39) < client.until - at < timedelta(minutes=41)


def test_deployment_warnings_are_shown(console: Console, operator: User, auth_config: ChangeConfig) -> None:
    console.sign_in("op@example.com")
    assert "authsvc.W003" in console.get().content.decode()
    auth_config(passwords={"min_length": 15})
    text = console.get().content.decode()
    assert "authsvc.W003" not in text
    assert "authsvc.W006" in text
    assert f"authsvc {authsvc.__version__}" in text
    number = len(dashboard.configuration_warnings())
    assert f"<summary><h2>Configuration warnings ({number})</h2></summary>" in text
    assert text.index('<details class="warnings">') < text.index("authsvc.W006")


def test_the_dashboard_needs_few_statements(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    console.get()
    with CaptureQueriesContext(connection) as statements:
        console.get()
    queries = [statement["sql"] for statement in statements if statement["sql"].startswith("SELECT")]
    assert len(queries) <= 8


def test_a_slow_statistic_is_omitted() -> None:
    def slow() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(3)")
        return 1

    assert read_replica.within_timeout(slow) is None
    assert read_replica.within_timeout(lambda: 2) == 2
