"""The dashboard: counts of today, rate-limited clients and configuration warnings."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import authsvc
from accounts.models import User
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.console import dashboard
from authsvc.db import sql
from authsvc.models import AuditLogEntry
from authsvc.security import rate_limits
from tests import factories
from tests.authsvc.console.conftest import Console
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


def test_on_a_busy_day_only_the_latest_entries_are_counted(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    factories.make_audit_entries(10_000, payload={"action": "logout"}, at=timezone.now() + timedelta(seconds=1))
    assert shown(console)["Sign-ins today"] == "0+"


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


def test_the_dashboard_needs_few_statements(console: Console, operator: User) -> None:
    console.sign_in("op@example.com")
    console.get()
    with CaptureQueriesContext(connection) as statements:
        console.get()
    queries = [each["sql"] for each in statements if each["sql"].startswith("SELECT")]
    assert len(queries) <= 8


def test_a_slow_statistic_is_omitted() -> None:
    def slow() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(3)")
        return 1

    assert sql.within_timeout(slow) is None
    assert sql.within_timeout(lambda: 2) == 2
