"""The metrics of the service and the events that record them."""

from __future__ import annotations

from typing import Any

import prometheus_client
import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from accounts.passwords import hashing
from authsvc.conf import Rate
from authsvc.db.postgresql_metrics.base import DatabaseWrapper
from authsvc.jobs.queue_metrics import QueueCollector
from authsvc.observability import django_metrics, metrics
from tests.conftest import Api, ChangeConfig, Mailbox
from tests.factories import PASSWORD, make_one_time_token, make_session, make_user
from tests.live.documentation import pages
from tests.recorded_metrics import RecordedMetrics

pytestmark = pytest.mark.django_db

GAUGE = "django_migrations_unapplied_total"


def test_sign_ins_are_counted_by_method_and_outcome(api: Api, recorded: RecordedMetrics) -> None:
    user = make_user(email="ann@example.com")
    account = {"email": "ann@example.com", "password": PASSWORD}
    api.post("/token?grant_type=password", account)
    api.post("/token?grant_type=password", account | {"password": "another one"})
    token = make_one_time_token(user)
    api.get(f"/verify?type=recovery&token={token.link_token}")
    api.get(f"/verify?type=recovery&token={token.link_token}")
    api.post("/token?grant_type=pkce", {"auth_code": "x", "code_verifier": "y"})
    assert recorded.changes("auth_sign_ins_total", "method", "outcome") == {
        ("password", "succeeded"): 1,
        ("password", "invalid_credentials"): 1,
        ("otp", "succeeded"): 1,
        ("otp", "otp_expired"): 1,
        ("pkce", "flow_state_not_found"): 1,
    }


def test_a_reused_refresh_token_is_counted(api: Api, recorded: RecordedMetrics) -> None:
    made = make_session(make_user())
    first = made.refresh_token
    for _ in range(2):
        newest = api.post("/token?grant_type=refresh_token", {"refresh_token": first}).json()["refresh_token"]
    api.post("/token?grant_type=refresh_token", {"refresh_token": newest})
    assert api.post("/token?grant_type=refresh_token", {"refresh_token": first}).status_code == 400
    assert recorded.total("auth_refresh_token_reuses_total") == 1
    assert recorded.total("auth_token_refreshes_total", outcome="succeeded") == 3


@pytest.mark.usefixtures("slow_refill")
def test_rate_limited_requests_are_counted(
    api: Api, recorded: RecordedMetrics, mailbox: Mailbox, auth_config: ChangeConfig
) -> None:
    auth_config(limits={"email_sent": Rate(events=1), "header": "X-Key"})
    for number in range(2):
        api.post("/otp", {"email": f"{number}@example.com"}, headers={"X-Key": str(number)})
    api.post("/otp", {"email": "0@example.com"}, headers={"X-Key": "0"})
    for _ in range(31):
        api.post("/resend", {}, headers={"X-Key": "1"})
    assert recorded.changes("auth_limit_refusals_total", "limit") == {
        ("email_sent",): 1,
        ("email_frequency",): 1,
        ("Resend",): 1,
    }
    assert recorded.changes("auth_email_rate_limit_counter_total", "path") == {("/otp",): 1}
    assert sum(recorded.changes("global_auth_email_send_operations_total", "type").values()) == 1


@pytest.mark.parametrize(
    ("stored", "alg", "cost"),
    [
        ("$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy", "bcrypt", "10"),
        ("$argon2i$v=19$m=16,t=2,p=1$YWFhYWFhYWE$YWFhYWFhYWE", "argon2i", "m=16,t=2,p=1"),
        ("$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=aaaa$aaaa$aaaa", "fbscrypt", "n=14,r=8,p=1"),
        ("nonsense", "unknown", ""),
    ],
    ids=["bcrypt", "argon2i", "firebase", "nonsense"],
)
def test_password_verifications_are_counted_by_hash_type(
    recorded: RecordedMetrics, stored: str, alg: str, cost: str
) -> None:
    assert not hashing.matches_hash("another one", stored)
    name = "auth_compare_hash_and_password"
    assert recorded.total(f"{name}_submitted_total", alg=alg, cost=cost) == 1
    assert recorded.total(f"{name}_completed_total", alg=alg, cost=cost, match="false") == 1


def test_hashing_occupies_a_slot_and_releases_it(api: Api, recorded: RecordedMetrics) -> None:
    api.post("/signup", {"email": "ann@example.com", "password": "correct horse 1"})
    own = {"alg": "argon2id", "cost": "m=19456,t=2,p=1"}
    assert recorded.total("auth_generate_from_password_submitted_total", **own) == 1
    assert recorded.total("auth_generate_from_password_completed_total", **own) == 1
    assert recorded.total("auth_hash_pool_running") == recorded.total("auth_hash_pool_waiting") == 0
    assert recorded.total("auth_hash_pool_wait_seconds_count") == 1
    assert recorded.total("auth_hash_pool_work_seconds_count") == 1


def test_statements_and_errors_are_counted(recorded: RecordedMetrics) -> None:
    measured: Any = DatabaseWrapper({**connection.settings_dict}, "default")
    try:
        with measured.cursor() as cursor:
            cursor.execute("SELECT %s::int", [1])
            with pytest.raises(DatabaseError):
                cursor.execute("SELECT 1 / %s::int", [0])
        # As `authsvc.db.sql` runs statements.
        with measured.connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT 1")
    finally:
        measured.close()
    assert recorded.total("django_db_new_connections_total", alias="default", vendor="postgresql") == 1
    assert recorded.total("django_db_execute_total", alias="default", vendor="postgresql") >= 3
    assert recorded.changes("django_db_errors_total", "type") == {("DivisionByZero",): 1}


@pytest.mark.django_db(transaction=True)
def test_queue_metrics_have_state_and_age(api: Api, mailbox: Mailbox) -> None:
    api.post("/otp", {"email": "ann@example.com"})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET scheduled_at = now() - interval '1 hour'")
    samples = {
        (sample.name, sample.labels.get("state", "")): sample.value
        for family in QueueCollector().collect()
        for sample in family.samples
    }
    assert samples["auth_database_up", ""] == 1
    assert samples["auth_queue_jobs", "waiting"] == 1
    assert samples["auth_queue_jobs", "failed"] == 0
    assert 3600 <= samples["auth_queue_oldest_job_seconds", ""] < 3700


@pytest.mark.usefixtures("recorded")
def test_every_metric_is_documented() -> None:
    families = [family for family in prometheus_client.REGISTRY.collect() if "auth_" in family.name]
    assert len(families) > 20
    assert all(family.documentation.endswith(".") for family in families)
    page = (pages.DOCS / "how-to" / "monitoring.md").read_text()
    assert [family.name for family in families if f"`{family.name}" not in page] == []


@pytest.mark.django_db(transaction=True)
def test_missing_migrations_are_counted_again_until_they_are_applied() -> None:
    recorder = MigrationRecorder(connection)
    newest = max(name for app, name in recorder.applied_migrations() if app == "core")
    missing: list[float] = []

    def apply(_seconds: float) -> None:
        missing.append(prometheus_client.REGISTRY.get_sample_value(GAUGE, {"connection": "default"}) or 0)
        recorder.record_applied("core", newest)

    recorder.record_unapplied("core", newest)
    django_metrics.count_migrations(pause=apply)

    assert missing == [1]
    assert prometheus_client.REGISTRY.get_sample_value(GAUGE, {"connection": "default"}) == 0


def test_disabled_metrics_accept_every_operation_and_load_nothing() -> None:
    metrics.CLEANED_ROWS.inc(3)
    metrics.HASH_SECONDS.observe(1.0)
    metrics.HASH_POOL_RUNNING.dec()
    metrics.HASH_POOL_SLOTS.set(2)
    metrics.SIGN_INS.labels("password", "succeeded").inc()
    assert not isinstance(metrics.SIGN_INS, prometheus_client.Counter)
