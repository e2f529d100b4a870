"""The dashboard: charts of 30 days, counts, quotas, the queue, rate-limited clients and configuration warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from django.contrib.admin import AdminSite
from django.core.checks import CheckMessage, Tags, run_checks
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

import authsvc
from authsvc import conf, daily_counts
from authsvc.api.throttling import Bucket
from authsvc.console import formatting, personal_data
from authsvc.console.charts import PATTERNS, Chart, build_chart
from authsvc.console.model_admin import DashboardStat, OperatorAdmin
from authsvc.daily_counts import DailyCounts, Series
from authsvc.db.read_replica import within_timeout
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.jobs import queued_jobs
from authsvc.jobs.queued_jobs import QueueState
from authsvc.messaging import quotas
from authsvc.messaging.quotas import QuotaLevel

_MAX_CLIENTS = 20
_MAX_CAUSES = len(PATTERNS) - 1
_CAUSES = {
    "": "unknown cause",
    "otp_expired": "wrong or expired code",
    "mfa_verification_failed": "wrong second factor",
}
_NOT_STORED = "Not counted: AUTH_AUDIT_LOG_DISABLE_POSTGRES keeps the audit trail out of the database."
_QUOTAS = {"email_sent": "Emails", "sms_sent": "Text messages"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitedClient:
    """A client whose requests are rejected by a rate limit."""

    bucket: str
    client: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQuota:
    """A row of the quotas."""

    label: str
    left: str
    is_used_up: bool
    rate: str
    full_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    stats: list[DashboardStat]
    charts: list[Chart]
    """Empty if the counts took too long."""
    behind_since: datetime | None
    missing_before: datetime | None
    quotas: list[ShownQuota] | None
    """None, as `queue` and `rate_limited`, if reading it took too long."""
    queue: QueueState | None
    oldest_job: str
    rate_limited: list[RateLimitedClient] | None
    warnings: list[CheckMessage]
    version: str
    at: datetime


def read_dashboard(site: AdminSite, *, is_hidden: bool) -> Dashboard:
    """The content of the dashboard. `is_hidden`: without the addresses of clients."""
    at = timezone.now()
    clients = within_timeout(lambda: rate_limited_clients(at), only_primary=True)
    if clients and is_hidden:
        clients = [replace(client, client=personal_data.HIDDEN) for client in clients]
    counts = _read_counts(at)
    levels = within_timeout(quotas.read_levels, only_primary=True)
    queue = within_timeout(queued_jobs.read_queue)
    return Dashboard(
        stats=[*(_today(counts, at) if counts else ()), *_list_stats(site)],
        charts=_charts(counts) if counts else [],
        behind_since=counts.behind_since if counts else None,
        missing_before=counts.missing_before if counts else None,
        quotas=None if levels is None else [_show_quota(level) for level in levels],
        queue=queue,
        oldest_job=_duration(queue.oldest_age) if queue and queue.oldest_age is not None else "",
        rate_limited=clients,
        warnings=configuration_warnings(),
        version=authsvc.__version__,
        at=at,
    )


def rate_limited_clients(at: datetime) -> list[RateLimitedClient]:
    """Clients whose requests are rate-limited now, the most recent first; at most 20."""
    parameters_by_bucket = {bucket.value: bucket.parameters for bucket in Bucket}
    rows = fetch_rows(
        f"SELECT bucket, key, tokens, created_at, updated_at FROM {namespaced('rate_limits')}"  # noqa: S608  (own name)
        " WHERE tokens < 1 AND bucket = ANY(%s) AND updated_at > %s ORDER BY updated_at DESC LIMIT 1000",
        (list(parameters_by_bucket), at - max(parameters.life for parameters in parameters_by_bucket.values())),
    )
    clients = []
    for bucket, key, tokens, created_at, updated_at in rows:
        parameters = parameters_by_bucket[bucket]
        until = created_at + parameters.life
        if parameters.per_second > 0:
            until = min(until, updated_at + timedelta(seconds=(1 - tokens) / parameters.per_second))
        if until > at:
            clients.append(RateLimitedClient(bucket=bucket, client=key, until=until))
    return clients[:_MAX_CLIENTS]


def configuration_warnings() -> list[CheckMessage]:
    """The warnings of `manage.py check --deploy`."""
    return [
        message
        for message in run_checks(tags=[Tags.security], include_deployment_checks=True)
        if not message.is_silenced()
    ]


def _today(counts: DailyCounts, at: datetime) -> Iterator[DashboardStat]:
    midnight = datetime.combine(at.astimezone(UTC).date(), datetime.min.time(), UTC)
    since = {"created_at__gte": midnight.isoformat()}
    for series, label, url in (
        (Series.SIGN_INS, "Sign-ins today", _list_url("core_auditlogentry", payload__action="login", **since)),
        (Series.SIGN_UPS, "New users today", _list_url("accounts_user", **since)),
    ):
        today = sum(numbers[-1] for numbers in counts.of(series).values())
        yield DashboardStat(label=label, count=today, url=url, limit=today + 1)


def _read_counts(at: datetime) -> DailyCounts | None:
    """The daily counts; without those of the last minutes if they take too long, None if all do."""
    counts = within_timeout(lambda: daily_counts.read_counts(at=at))
    return counts or within_timeout(lambda: daily_counts.read_counts(at=at, includes_recent=False))


def _charts(counts: DailyCounts) -> list[Chart]:
    def total(series: Series) -> tuple[int, ...]:
        return counts.of(series).get("", (0,) * len(counts.days))

    refused = {_CAUSES.get(code, code.replace("_", " ")): numbers for code, numbers in _largest_causes(counts).items()}
    not_stored = _NOT_STORED if conf.current().audit.disable_postgres else ""
    messages = {"sent": total(Series.MESSAGES_SENT), "failed": total(Series.MESSAGES_FAILED)}
    charts: list[tuple[str, Mapping[str, Sequence[int]], str]] = [
        ("Sign-ups", {"sign-ups": total(Series.SIGN_UPS)}, ""),
        ("Sign-ins", {"sign-ins": total(Series.SIGN_INS)}, not_stored),
        ("Refused sign-ins", refused or {"refused": total(Series.REFUSED_SIGN_INS)}, not_stored),
        ("Messages", messages, ""),
    ]
    return [
        build_chart(f"chart-{number}", title, counts.days, series, note=note)
        for number, (title, series, note) in enumerate(charts, 1)
    ]


def _largest_causes(counts: DailyCounts) -> dict[str, tuple[int, ...]]:
    """Error code → refused sign-ins per day, the most frequent first; rare codes together as `other causes`."""
    refused = sorted(counts.of(Series.REFUSED_SIGN_INS).items(), key=lambda item: (-sum(item[1]), item[0]))
    largest, rest = dict(refused[:_MAX_CAUSES]), refused[_MAX_CAUSES:]
    if rest:
        largest["other causes"] = tuple(map(sum, zip(*(numbers for _, numbers in rest), strict=True)))
    return largest


def _show_quota(level: QuotaLevel) -> ShownQuota:
    return ShownQuota(
        label=f"{_QUOTAS[level.quota]} of {level.sender}",
        left=f"{level.left:,}",
        is_used_up=not level.left,
        rate=formatting.rate_text(level.rate),
        full_at=level.full_at,
    )


def _duration(seconds: float) -> str:
    """A duration in its largest whole unit: `3 min`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _list_url(page: str, **query: str) -> str:
    """URL of a list, or an empty string if the list does not exist."""
    try:
        return str(reverse(f"admin:{page}_changelist", query=query))
    except NoReverseMatch:
        return ""


def _list_stats(site: AdminSite) -> Iterator[DashboardStat]:
    for model_admin in site._registry.values():
        if isinstance(model_admin, OperatorAdmin):
            yield from within_timeout(partial(_stats_of, model_admin)) or ()


def _stats_of(model_admin: OperatorAdmin) -> list[DashboardStat]:
    return list(model_admin.dashboard_stats())
