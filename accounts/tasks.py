"""Work on accounts in the background: bulk messages, search indexes, daily counts and the cleanup of expired rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from accounts.administration.bulk_messages import send
from accounts.models import FactorStatus, User
from accounts.passwords import hash_kinds
from accounts.users import failed_attempts, user_events
from accounts.users.search import indexes
from authsvc import conf, daily_counts, events, jobs
from authsvc.daily_counts import Series, Source
from authsvc.db.sql import namespaced
from authsvc.events import EventType
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule

__all__ = ["ensure_search_indexes", "send", "survey_password_hashes"]

_EVERY = timedelta(hours=1)
_WHILE_ANOTHER_BUILDS = timedelta(seconds=20)
_index_interval = _EVERY
"""Time until this process checks the search indexes again."""
_CHALLENGE_KEPT_FOR = timedelta(hours=24)
_FACTOR_UNVERIFIED_FOR = timedelta(hours=24)
_MAX_INTEGER = 2**31 - 1
_ANONYMOUS_FOR = timedelta(days=30)


@jobs.worker_loop(name="accounts.users.search.indexes", interval=lambda: _index_interval)
def ensure_search_indexes() -> None:
    global _index_interval
    # This process takes over if the one that builds the indexes ends before it has built all.
    _index_interval = _EVERY if indexes.ensure() else _WHILE_ANOTHER_BUILDS


@jobs.worker_loop(name="accounts.passwords.hash_kinds", interval=lambda: _EVERY)
def survey_password_hashes() -> None:
    try:
        hash_kinds.survey(at=timezone.now())
    finally:
        connection.close()


def _unverified(at: datetime) -> Sequence[str | datetime]:
    return FactorStatus.UNVERIFIED, at - _FACTOR_UNVERIFIED_FOR


def _anonymous(at: datetime) -> Sequence[datetime] | None:
    return (at - _ANONYMOUS_FOR,) if conf.current().signup.anonymous_enabled else None


def _old_failures(at: datetime) -> Sequence[datetime | int]:
    # Without a limit no row has a meaning.
    return at - failed_attempts.WINDOW, conf.current().codes.max_failed_attempts or _MAX_INTEGER


_USER_OF_FAILURES = f"SELECT FROM {namespaced('users')} u WHERE u.id = t.user_id"


class AnonymousUsers(CleanupRule):
    """Deletes old anonymous users, and records that where the event is recorded."""

    def run(self, *, at: datetime) -> int:
        parameters = self.parameters(at)
        if parameters is None or not events.is_recorded(EventType.USER_DELETED):
            return super().run(at=at)
        with transaction.atomic():
            rows = User.objects.select_for_update(skip_locked=True)
            expired = rows.filter(is_anonymous=True, created_at__lt=parameters[0])
            users = list(expired.values_list("id", "email", "phone")[: self.batch_size])
            User.objects.filter(id__in=[user_id for user_id, _, _ in users]).delete_rows()
            for user_id, email, phone in users:
                user_events.record_deletion(user_id, email=email or "", phone=phone or "", is_soft=False, at=at)
        return len(users)


cleanup.register(
    CleanupRule(
        table="mfa_challenges",
        condition="t.created_at < %s",
        parameters=cleanup.before(_CHALLENGE_KEPT_FOR),
        is_mandatory=True,
    ),
    CleanupRule(table="mfa_factors", condition="t.status = %s AND t.created_at < %s", parameters=_unverified),
    CleanupRule(
        table="webauthn_challenges",
        condition="t.expires_at < %s",
        parameters=cleanup.before(timedelta()),
        is_mandatory=True,
    ),
    CleanupRule(
        table="failed_attempts",
        key="user_id",
        condition=f"t.started_at < %s AND (t.attempts < %s OR NOT EXISTS ({_USER_OF_FAILURES}))",
        parameters=_old_failures,
        is_mandatory=True,
    ),
    AnonymousUsers(table="users", condition="t.is_anonymous AND t.created_at < %s", parameters=_anonymous),
)
daily_counts.register(Source(table="users", series=f"'{Series.SIGN_UPS}'"))
