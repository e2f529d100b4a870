"""Messages of operators to many users: cost, schedule, jobs, quota and priority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from accounts.administration import bulk_messages, errors
from accounts.administration.bulk_messages import BulkMessage, Schedule
from accounts.models import User
from authsvc import audit, jobs, messaging
from authsvc.caller import AuditContext, Caller
from authsvc.conf import Rate
from authsvc.db import sql
from authsvc.errors import EmailRateExceeded
from authsvc.messaging.quotas import QuotaLevel
from authsvc.models import AuditLogEntry, RateLimit
from tests import factories
from tests.conftest import ChangeConfig, Mailbox

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
RUN = jobs.Run(attempt=1, retry_delay=timedelta(hours=1))


def make_schedule(
    *, events: int, left: int, over: timedelta | None = None, waiting: int = 0, full: int = 0
) -> Schedule:
    level = QuotaLevel(
        quota="email_sent",
        sender="operators",
        rate=Rate(events=events, over=over),
        left=left,
        full_at=NOON + timedelta(minutes=full) if full else None,
    )
    return Schedule(level=level, at=NOON, waiting=waiting)


def minutes(schedule: Schedule, number: int) -> list[float | None]:
    """Minutes after noon of the next messages; None for now."""
    times = [schedule.take() for _ in range(number)]
    return [None if time is None else (time - NOON) / timedelta(minutes=1) for time in times]


def test_messages_beyond_the_quota_follow_in_the_next_hours() -> None:
    assert minutes(make_schedule(events=2, left=1, full=20), 6) == [None, 20, 20, 80, 80, 140]
    assert minutes(make_schedule(events=2, left=2), 4) == [None, None, 60, 60]


def test_messages_that_already_wait_come_first() -> None:
    assert minutes(make_schedule(events=2, left=1, full=20, waiting=2), 3) == [20, 80, 80]


def test_a_quota_with_refill_gives_one_message_at_a_time() -> None:
    schedule = make_schedule(events=10, left=1, over=timedelta(minutes=6))
    assert minutes(schedule, 4) == [None, 6, 12, 18]


def test_a_quota_of_zero_gives_no_time() -> None:
    with pytest.raises(EmailRateExceeded):
        make_schedule(events=0, left=0).take()


@pytest.fixture
def operator(db: None) -> User:
    return factories.make_user(email="op@example.com", role="svc_admin")


@pytest.fixture
def caller() -> Caller:
    return Caller(
        address="192.0.2.9",
        request_id="request-1",
        audience="authenticated",
        link_base="https://auth.example.com",
        audit=AuditContext(),
    )


def enqueue(user: User, operator: User, caller: Caller, *, message: BulkMessage = BulkMessage.RECOVERY) -> None:
    at = timezone.now()
    actor = audit.Administrator(role=operator.role or "", user_id=operator.pk, address="op@example.com", reason="leak")
    schedule = bulk_messages.read_schedule(at=at)
    bulk_messages.enqueue(message, user.pk, schedule=schedule, actor=actor, caller=caller, at=at)


def estimate(message: BulkMessage, users: QuerySet[User], *, at: datetime | None = None) -> bulk_messages.Cost:
    recipients = bulk_messages.read_recipients(users)
    return bulk_messages.estimate_cost(message, recipients, find_refusal=lambda _: "", at=at or timezone.now())


def queued(task: str = "accounts.send_bulk_message") -> list[tuple[Any, ...]]:
    """(Priority, time, arguments) of the waiting jobs of a task."""
    return sql.fetch_rows(
        "SELECT priority, scheduled_at, args FROM procrastinate_jobs"
        " WHERE task_name = %s AND status = 'todo' ORDER BY id",
        (task,),
    )


def run_jobs() -> None:
    """Run the waiting bulk jobs as the worker does, except for their removal."""
    for _, _, arguments in queued():
        bulk_messages.send.function(RUN, **arguments)


def tokens(bucket: str) -> float | None:
    return RateLimit.objects.filter(bucket=bucket).values_list("tokens", flat=True).first()


def test_a_bulk_message_is_sent_by_a_job_with_its_quota_and_after_all_others(
    operator: User, caller: Caller, mailbox: Mailbox
) -> None:
    ada = factories.make_user(email="ada@example.com")
    enqueue(ada, operator, caller)
    assert not mailbox.emails
    [(priority, run_at, arguments)] = queued()
    assert (priority, run_at) == (jobs.BULK_SOURCE_PRIORITY, None)
    assert "ada@example.com" not in str(arguments)

    run_jobs()
    [email] = mailbox.emails
    assert (email.type, email.to, email.is_bulk) == ("recovery", "ada@example.com", True)
    assert email.variables["ConfirmationURL"].startswith("https://auth.example.com/verify?token=")
    assert [priority for priority, _, _ in queued("mailer.deliver")] == [jobs.BULK_PRIORITY]
    # Sign-in codes, and periodic work, come first; delivery comes before the creation of further messages.
    assert 0 > jobs.registry.PERIODIC_PRIORITY > jobs.BULK_PRIORITY > jobs.BULK_SOURCE_PRIORITY
    assert tokens("email_sent:operators") == 999
    assert (tokens("email_sent"), tokens("email_sent:administration")) == (None, None)
    [entry] = AuditLogEntry.objects.filter(payload__action="user_recovery_requested")
    assert entry.ip_address == "192.0.2.9"
    expected = {"actor_id": str(operator.pk), "actor_username": "op@example.com", "reason": "leak"}
    assert {**entry.payload, **expected, "request_id": "request-1"} == entry.payload
    assert entry.payload["traits"]["user_id"] == str(ada.pk)


@pytest.mark.django_db
def test_other_messages_are_delivered_first(mailbox: Mailbox) -> None:
    for is_bulk in (True, False):
        messaging.send(messaging.Email(type=messaging.EmailType.INVITE, to="a@b.c", variables={}, is_bulk=is_bulk))
        messaging.send(
            messaging.Sms(type=messaging.SmsType.FACTOR, to="49", channel="sms", variables={}, is_bulk=is_bulk)
        )
    assert [priority for priority, _, _ in queued("mailer.deliver")] == [-10, -10, 0, 1]
    ((fetched,),) = sql.fetch_rows("SELECT (procrastinate_fetch_job_v2('{default}', NULL)).priority", ())
    assert fetched == 1


def test_a_job_waits_while_the_quota_is_used_up(
    operator: User, caller: Caller, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(limits={"operator_messages": Rate(events=1), "email_sent": Rate(events=0)})
    users = [factories.make_user() for _ in range(2)]
    for user in users:
        enqueue(user, operator, caller)
    first, second = queued()
    assert first[1] is None
    assert timedelta(minutes=59) < second[1] - timezone.now() <= timedelta(hours=1)
    bulk_messages.send.function(RUN, **first[2])
    with pytest.raises(jobs.Retry) as error:
        bulk_messages.send.function(RUN, **second[2])
    assert error.value.delay is not None
    assert timedelta(minutes=59) < error.value.delay <= timedelta(hours=1)
    assert [email.to for email in mailbox.emails] == [users[0].email]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"email": None}, errors.NothingToSendTo),
        ({"is_sso_user": True}, errors.NothingToSendTo),
        ({"banned_until": datetime(2100, 1, 1, tzinfo=UTC)}, errors.RecipientBanned),
        ({"deleted_at": NOON}, errors.RecipientDeleted),
    ],
)
def test_users_who_cannot_get_it_are_skipped_before_and_after_queueing(
    operator: User, caller: Caller, mailbox: Mailbox, change: dict[str, Any], error: type[Exception]
) -> None:
    ada = factories.make_user()
    enqueue(ada, operator, caller)
    User.objects.filter(pk=ada.pk).update(**change)
    with pytest.raises(error):
        enqueue(ada, operator, caller)
    assert len(queued()) == 1
    run_jobs()
    assert not mailbox.emails
    cost = estimate(BulkMessage.RECOVERY, User.objects.filter(pk=ada.pk))
    assert (cost.recipients, cost.skipped, cost.waiting, cost.left) == (0, {error.message: 1}, 1, 999)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change", [{"role": "authenticated"}, {"banned_until": datetime(2100, 1, 1, tzinfo=UTC)}, None]
)
def test_jobs_of_an_operator_without_access_send_nothing(
    operator: User, caller: Caller, mailbox: Mailbox, change: dict[str, Any] | None
) -> None:
    enqueue(factories.make_user(), operator, caller)
    if change:
        User.objects.filter(pk=operator.pk).update(**change)
    else:
        operator.delete()
    run_jobs()
    assert not mailbox.emails


def test_a_job_that_runs_again_sends_no_second_message(operator: User, caller: Caller, mailbox: Mailbox) -> None:
    for confirmed, message in ((True, BulkMessage.MAGIC_LINK), (False, BulkMessage.CONFIRMATION)):
        enqueue(factories.make_user(confirmed=confirmed), operator, caller, message=message)
    run_jobs()
    run_jobs()
    assert len(mailbox.emails) == 2


@pytest.mark.django_db
def test_support_sends_nothing_to_a_user_who_has_become_an_operator(
    caller: Caller, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(console={"roles": {"helper": "support"}})
    helper, ada = factories.make_user(role="helper"), factories.make_user()
    enqueue(ada, helper, caller)
    User.objects.filter(pk=ada.pk).update(role="svc_admin")
    run_jobs()
    assert not mailbox.emails
    User.objects.filter(pk=helper.pk).update(role="svc_admin")
    run_jobs()
    assert len(mailbox.emails) == 1


def test_the_cost_counts_channels_and_the_time_of_the_last_message(operator: User, auth_config: ChangeConfig) -> None:
    auth_config(limits={"operator_messages": Rate(events=2)})
    for number in range(3):
        factories.make_user(confirmed=False)
        User.objects.create(phone=f"491700000{number}", aud="authenticated", created_at=NOON)
    factories.make_user()
    at = timezone.now()
    cost = estimate(BulkMessage.CONFIRMATION, User.objects.exclude(pk=operator.pk), at=at)
    assert (cost.emails, cost.sms, cost.skipped) == (3, 3, {errors.NothingToConfirm.message: 1})
    assert (cost.left, cost.last_at) == (2, at + timedelta(hours=2))
    empty = estimate(BulkMessage.MAGIC_LINK, User.objects.none())
    assert (empty.recipients, empty.last_at) == (0, None)
