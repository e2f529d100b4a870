"""The dashboard: counts of today and of the lists, rate-limited clients, and configuration warnings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from django.contrib.admin import AdminSite
from django.core.checks import CheckMessage, Tags, run_checks
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

import authsvc
from accounts.models import User
from authsvc.api.throttling import Bucket
from authsvc.console import personal_data
from authsvc.console.model_admin import DashboardStat, OperatorAdmin, bounded_count
from authsvc.db.sql import fetch_row, fetch_rows, namespaced, within_timeout

_MAX_ENTRIES = 10_000
_MAX_CLIENTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitedClient:
    """A client whose requests are rejected by a rate limit."""

    bucket: str
    client: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    stats: list[DashboardStat]
    rate_limited: list[RateLimitedClient]
    warnings: list[CheckMessage]
    version: str
    at: datetime


def read_dashboard(site: AdminSite, *, is_hidden: bool) -> Dashboard:
    """`is_hidden`: without the addresses of clients."""
    at = timezone.now()
    clients = within_timeout(lambda: rate_limited_clients(at)) or []
    if is_hidden:
        clients = [replace(client, client=personal_data.HIDDEN) for client in clients]
    return Dashboard(
        stats=[*_today(at), *_list_stats(site)],
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


def _today(at: datetime) -> Iterator[DashboardStat]:
    midnight = datetime.combine(at.astimezone(UTC).date(), datetime.min.time(), UTC)
    since = {"created_at__gte": midnight.isoformat()}
    sign_ins = within_timeout(lambda: _sign_ins(midnight))
    if sign_ins is not None:
        url = _list_url("core_auditlogentry", payload__action="login", **since)
        yield DashboardStat(label="Sign-ins today", count=sign_ins[0], url=url, limit=sign_ins[1])
    users = within_timeout(lambda: bounded_count(User.objects.filter(created_at__gte=midnight), limit=_MAX_ENTRIES))
    if users is not None:
        yield DashboardStat(
            label="New users today", count=users, url=_list_url("accounts_user", **since), limit=_MAX_ENTRIES
        )


def _sign_ins(since: datetime) -> tuple[int, int]:
    """The number of sign-ins, and the count from which there may be more: only the latest entries are read."""
    row = fetch_row(
        "SELECT count(*) FILTER (WHERE action = 'login'), count(*) FROM"  # noqa: S608  (own name)
        f" (SELECT payload ->> 'action' AS action FROM {namespaced('audit_log_entries')}"
        " WHERE created_at >= %s ORDER BY created_at DESC, id DESC LIMIT %s) latest",
        (since, _MAX_ENTRIES),
    )
    sign_ins, entries = row or (0, 0)
    return sign_ins, sign_ins if entries >= _MAX_ENTRIES else _MAX_ENTRIES


def _list_url(page: str, **query: str) -> str:
    """URL of a list, or an empty string if the list does not exist."""
    try:
        return str(reverse(f"admin:{page}_changelist", query=query))
    except NoReverseMatch:
        return ""


def _list_stats(site: AdminSite) -> Iterator[DashboardStat]:
    for page in site._registry.values():
        if isinstance(page, OperatorAdmin):
            yield from within_timeout(partial(_stats_of, page)) or ()


def _stats_of(page: OperatorAdmin) -> list[DashboardStat]:
    return list(page.dashboard_stats())
