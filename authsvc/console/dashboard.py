"""The start page's figures: what happened today and what needs somebody to look, each counted within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from django.contrib.admin import AdminSite
from django.core.checks import CheckMessage, Tags, run_checks
from django.db import OperationalError, connection, transaction
from django.urls import NoReverseMatch, reverse

import authsvc
from accounts.models import User
from authsvc import clock
from authsvc.api.throttling import Bucket
from authsvc.console.model_admin import Figure, OperatorAdmin, count_some
from authsvc.db.sql import namespaced, row, rows

Value = TypeVar("Value")

_PATIENCE = "250ms"
"""For one statement. A figure that takes longer is left out, whatever the size of the tables."""
_MOST_ENTRIES = 10_000
_MOST_REFUSED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A client whose share of some request limit is used up at this moment."""

    bucket: str
    client: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    figures: list[Figure]
    refused: list[Refused]
    concerns: list[CheckMessage]
    version: str
    at: datetime


def look(site: AdminSite) -> Overview:
    at = clock.now()
    return Overview(
        figures=[*_today(at), *_of_lists(site)],
        refused=within_patience(lambda: refused(at)) or [],
        concerns=concerns(),
        version=authsvc.__version__,
        at=at,
    )


def refused(at: datetime) -> list[Refused]:
    """Clients that a request limit turns away now, the most recent first; no more than twenty."""
    shapes = {bucket.value: bucket.parameters for bucket in Bucket}
    found = rows(
        f"SELECT bucket, key, tokens, created_at, updated_at FROM {namespaced('rate_limits')}"  # noqa: S608  (own name)
        " WHERE tokens < 1 AND bucket = ANY(%s) AND updated_at > %s ORDER BY updated_at DESC LIMIT 1000",
        (list(shapes), at - max(shape.life for shape in shapes.values())),
    )
    turned_away = []
    for bucket, key, tokens, created_at, updated_at in found:
        shape = shapes[bucket]
        until = created_at + shape.life
        if shape.per_second > 0:
            until = min(until, updated_at + timedelta(seconds=(1 - tokens) / shape.per_second))
        if until > at:
            turned_away.append(Refused(bucket=bucket, client=key, until=until))
    return turned_away[:_MOST_REFUSED]


def concerns() -> list[CheckMessage]:
    """What `manage.py check --deploy` has to say about the settings."""
    return [each for each in run_checks(tags=[Tags.security], include_deployment_checks=True) if not each.is_silenced()]


def _today(at: datetime) -> Iterator[Figure]:
    midnight = datetime.combine(at.astimezone(UTC).date(), datetime.min.time(), UTC)
    since = {"created_at__gte": midnight.isoformat()}
    sign_ins = within_patience(lambda: _sign_ins(midnight))
    if sign_ins is not None:
        url = _list_url("core_auditlogentry", payload__action="login", **since)
        yield Figure(label="Sign-ins today", count=sign_ins[0], url=url, most=sign_ins[1])
    users = within_patience(lambda: count_some(User.objects.filter(created_at__gte=midnight), most=_MOST_ENTRIES))
    if users is not None:
        yield Figure(label="New users today", count=users, url=_list_url("accounts_user", **since), most=_MOST_ENTRIES)


def _sign_ins(since: datetime) -> tuple[int, int]:
    """How many, and from which number on there may be more: on a busy day only the latest entries are looked at."""
    found = row(
        "SELECT count(*) FILTER (WHERE action = 'login'), count(*) FROM"  # noqa: S608  (own name)
        f" (SELECT payload ->> 'action' AS action FROM {namespaced('audit_log_entries')}"
        " WHERE created_at >= %s ORDER BY created_at DESC, id DESC LIMIT %s) latest",
        (since, _MOST_ENTRIES),
    )
    sign_ins, entries = found or (0, 0)
    return sign_ins, sign_ins if entries >= _MOST_ENTRIES else _MOST_ENTRIES


def _list_url(page: str, **query: str) -> str:
    """`""` when there is no such list."""
    try:
        return str(reverse(f"admin:{page}_changelist", query=query))
    except NoReverseMatch:
        return ""


def _of_lists(site: AdminSite) -> Iterator[Figure]:
    for page in site._registry.values():
        if isinstance(page, OperatorAdmin):
            yield from within_patience(partial(_figures, page)) or ()


def _figures(page: OperatorAdmin) -> list[Figure]:
    return list(page.figures())


def within_patience(work: Callable[[], Value]) -> Value | None:
    """None when a statement of it took too long."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = '{_PATIENCE}'")
            return work()
    except OperationalError:
        return None
