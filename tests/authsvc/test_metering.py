"""What the service counts of itself, where it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection

from accounts.passwords import hashers
from authsvc.conf.schema import AuthConfig, Rate
from authsvc.db import sql
from authsvc.observability import metrics
from authsvc.observability.telemetry import figures, queue
from tests.conftest import Api, Mailbox
from tests.factories import PASSWORD, make_one_time_token, make_session, make_user

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]


class Seen:
    """A store that remembers."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.observed: Counter[str] = Counter()

    def record(self, *events: metrics.Event) -> None:
        for instrument, labels, value in events:
            assert len(labels) == len(instrument.labels)
            if isinstance(instrument, metrics.Histogram):
                assert value >= 0
                self.observed[instrument.name] += 1
            else:
                self.counts[instrument.name, *labels] += int(value)


@pytest.fixture
def seen() -> Iterator[Seen]:
    store = Seen()
    metrics.keep_in(store)
    yield store
    metrics.keep_in(None)


def test_sign_ins_are_counted_by_method_and_outcome(api: Api, seen: Seen) -> None:
    user = make_user(email="ann@example.com")
    account = {"email": "ann@example.com", "password": PASSWORD}
    api.post("/token?grant_type=password", account)
    api.post("/token?grant_type=password", account | {"password": "another one"})
    token = make_one_time_token(user)
    api.get(f"/verify?type=recovery&token={token.link_token}")
    api.get(f"/verify?type=recovery&token={token.link_token}")
    api.post("/token?grant_type=pkce", {"auth_code": "x", "code_verifier": "y"})
    assert {key[1:]: count for key, count in seen.counts.items() if key[0] == "auth_sign_ins"} == {
        ("password", "succeeded"): 1,
        ("password", "invalid_credentials"): 1,
        ("otp", "succeeded"): 1,
        ("otp", "otp_expired"): 1,
        ("pkce", "flow_state_not_found"): 1,
    }


def test_a_refresh_token_that_comes_back_is_counted_as_reuse(api: Api, seen: Seen, auth_config: ChangeConfig) -> None:
    made = make_session(make_user())
    first = made.refresh_token
    for _ in range(2):
        newest = api.post("/token?grant_type=refresh_token", {"refresh_token": first}).json()["refresh_token"]
    api.post("/token?grant_type=refresh_token", {"refresh_token": newest})
    assert api.post("/token?grant_type=refresh_token", {"refresh_token": first}).status_code == 400
    assert seen.counts["auth_refresh_token_reuses",] == 1
    assert seen.counts["auth_token_refreshes", "succeeded"] == 3


def test_refusals_by_limits_are_counted(api: Api, seen: Seen, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=1), "header": "X-Key"})
    for number in range(2):
        api.post("/otp", {"email": f"{number}@example.com"}, headers={"X-Key": str(number)})
    api.post("/otp", {"email": "0@example.com"}, headers={"X-Key": "0"})
    for _ in range(31):
        api.post("/resend", {}, headers={"X-Key": "1"})
    assert seen.counts["auth_limit_refusals", "email_sent"] == 1
    assert seen.counts["auth_email_rate_limit_counter", "/otp"] == 1
    assert seen.counts["auth_limit_refusals", "email_frequency"] == 1
    assert seen.counts["auth_limit_refusals", "Resend"] == 1
    assert sum(count for key, count in seen.counts.items() if key[0] == "global_auth_email_send_operations_total") == 1


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy", ("bcrypt", "10")),
        ("$argon2i$v=19$m=16,t=2,p=1$YWFhYWFhYWE$YWFhYWFhYWE", ("argon2i", "m=16,t=2,p=1")),
        ("$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=aaaa$aaaa$aaaa", ("fbscrypt", "n=14,r=8,p=1")),
        ("nonsense", ("unknown", "")),
    ],
    ids=["bcrypt", "argon2i", "firebase", "nonsense"],
)
def test_comparisons_are_counted_by_kind_of_hash(seen: Seen, stored: str, expected: tuple[str, str]) -> None:
    assert not hashers.verify("another one", stored)
    assert seen.counts["auth_compare_hash_and_password_submitted", *expected] == 1
    assert seen.counts["auth_compare_hash_and_password_completed", *expected, "false"] == 1


def test_hashing_waits_for_its_turn_and_gives_it_back(api: Api, seen: Seen) -> None:
    api.post("/signup", {"email": "ann@example.com", "password": "correct horse 1"})
    own = ("argon2id", "m=19456,t=2,p=1")
    assert seen.counts["auth_generate_from_password_submitted", *own] == 1
    assert seen.counts["auth_generate_from_password_completed", *own] == 1
    assert seen.counts["auth_hash_pool_running",] == seen.counts["auth_hash_pool_waiting",] == 0
    assert seen.observed["auth_hash_pool_wait"] == seen.observed["auth_hash_pool_work"] == 1


@pytest.mark.django_db(transaction=True)
def test_statements_are_timed_and_failed_ones_counted(seen: Seen, auth_config: ChangeConfig) -> None:
    connection.close()
    auth_config(telemetry={"metrics_enabled": True})
    try:
        sql.rows("SELECT %s::int", (1,))
        with pytest.raises(DatabaseError):
            sql.rows("SELECT 1 / %s::int", (0,))
    finally:
        connection.close()
    assert seen.observed["db.client.operation.duration"] >= 2
    assert seen.counts["auth_database_errors", "22"] == 1
    assert seen.counts["auth_database_connections",] == 0


@pytest.mark.django_db(transaction=True)
def test_the_queue_is_read_by_state_and_age(api: Api, mailbox: Mailbox) -> None:
    api.post("/otp", {"email": "ann@example.com"})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET scheduled_at = now() - interval '1 hour'")
    read = {(reading.name, reading.labels): reading.value for reading in queue.read()}
    assert read["auth_database_up", ()] == 1
    assert read["auth_queue_jobs", (("state", "waiting"),)] == 1
    assert read["auth_queue_jobs", (("state", "failed"),)] == 0
    assert 3600 <= read["auth_queue_oldest_job", ()] < 3700


@pytest.mark.parametrize("instrument", metrics.instruments(), ids=lambda each: each.name)
def test_every_instrument_says_what_it_is(instrument: metrics.Instrument) -> None:
    assert instrument.help.endswith(".")
    assert all(len(labels) == len(instrument.labels) for labels in instrument.known)
    name = figures.prometheus_name(instrument.name, instrument.unit)
    assert name.replace("_", "").isalnum()


def test_nothing_is_kept_while_nobody_wants_it() -> None:
    before: list[Any] = list(metrics.instruments())
    metrics.CLEANED.add(amount=3)
    metrics.HASH_SECONDS.observe(1.0)
    assert list(metrics.instruments()) == before
