"""Token buckets in PostgreSQL, and the rate limits of requests."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.http import HttpRequest
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from authsvc import conf
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import client_key
from authsvc.db.sql import namespaced
from authsvc.models import RateLimit
from authsvc.security import rate_limits

AuthConfig = Callable[..., object]

HOUR = timedelta(hours=1)

_numbers = count()


@pytest.fixture
def bucket() -> str:
    """A counter that no other test uses."""
    return f"test-{next(_numbers)}"


def pass_time(seconds: float) -> None:
    """Move all counters back by `seconds`."""
    table = connection.ops.quote_name(namespaced("rate_limits"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET created_at = created_at - make_interval(secs => %s),"
            " updated_at = updated_at - make_interval(secs => %s)",
            [seconds, seconds],
        )


@pytest.mark.django_db
def test_a_bucket_allows_its_burst_and_then_its_refill(bucket: str) -> None:
    def take() -> float | None:
        return rate_limits.consume(bucket=bucket, key="a", burst=3, per_second=0.1, life=HOUR)

    assert [take() for _ in range(3)] == [None] * 3
    wait = take()
    assert wait is not None
    assert 9 < wait <= 10
    pass_time(10)
    assert take() is None
    assert take() is not None
    pass_time(1000)
    assert [take() is None for _ in range(4)] == [True, True, True, False]


@pytest.mark.django_db
def test_an_expired_bucket_is_full_again(bucket: str) -> None:
    def take() -> float | None:
        return rate_limits.consume(bucket=bucket, key="a", burst=2, per_second=0, life=timedelta(seconds=100))

    assert take() is None
    pass_time(60)
    assert take() is None
    wait = take()
    assert wait is not None
    assert 39 < wait <= 40
    pass_time(41)
    assert [take() is None for _ in range(3)] == [True, True, False]
    pass_time(60)
    assert take() is not None


@pytest.mark.django_db
def test_a_clock_that_is_set_back_refuses_nothing(bucket: str) -> None:
    def take() -> float | None:
        return rate_limits.consume(bucket=bucket, key="a", burst=3, per_second=1, life=HOUR)

    assert take() is None
    assert rate_limits.allow_once(group=f"{bucket}-mail", key="a@b.co", interval=timedelta(minutes=1)) is None
    pass_time(-1800)
    assert [take() is None for _ in range(3)] == [True, True, False]
    assert rate_limits.allow_once(group=f"{bucket}-mail", key="a@b.co", interval=timedelta(minutes=1)) is None


@pytest.mark.django_db
def test_keys_and_buckets_are_independent(bucket: str) -> None:
    for name, key in ((bucket, "a"), (bucket, "b"), (f"{bucket}-other", "a")):
        assert rate_limits.consume(bucket=name, key=key, burst=1, per_second=0, life=HOUR) is None
        assert rate_limits.consume(bucket=name, key=key, burst=1, per_second=0, life=HOUR) is not None


@pytest.mark.django_db
def test_an_empty_bucket_rejects_every_request(bucket: str) -> None:
    assert rate_limits.consume(bucket=bucket, key="a", burst=0, per_second=1, life=HOUR) == 3600


@pytest.mark.django_db
def test_keys_of_any_length_are_accepted(bucket: str) -> None:
    first, second = "é" * 60_000, "é" * 60_000 + "x"
    assert rate_limits.consume(bucket=bucket, key=first, burst=1, per_second=0, life=HOUR) is None
    assert rate_limits.consume(bucket=bucket, key=first, burst=1, per_second=0, life=HOUR) is not None
    assert rate_limits.consume(bucket=bucket, key=second, burst=1, per_second=0, life=HOUR) is None


@pytest.mark.django_db
def test_consuming_needs_one_statement(bucket: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        rate_limits.consume(bucket=bucket, key="a", burst=1, per_second=0, life=HOUR)
    assert len(queries) == 1


@pytest.mark.django_db
def test_an_event_is_allowed_once_per_interval(bucket: str) -> None:
    def admit(seconds: float) -> float | None:
        return rate_limits.allow_once(group=bucket, key="a@b.co", interval=timedelta(seconds=seconds))

    assert admit(60) is None
    wait = admit(60)
    assert wait is not None
    assert 59 < wait <= 60
    pass_time(30)
    longer = admit(900)
    assert longer is not None
    assert 869 < longer <= 870
    assert admit(29) is None
    pass_time(30)
    assert admit(60) is not None
    assert admit(0) is None


@pytest.mark.django_db
def test_a_window_starts_with_its_first_event_and_lasts_an_hour(bucket: str) -> None:
    rate = conf.Rate(events=2)

    def take() -> float | None:
        return rate_limits.consume_event(bucket=bucket, rate=rate)

    assert take() is None
    pass_time(600)
    assert take() is None
    wait = take()
    assert wait is not None
    assert 2999 < wait <= 3000
    pass_time(2990)
    wait = take()
    assert wait is not None
    assert 9 < wait <= 10
    pass_time(11)
    assert [take() is None for _ in range(3)] == [True, True, False]


@pytest.mark.django_db
def test_a_rate_with_a_duration_refills_continuously(bucket: str) -> None:
    rate = conf.Rate(events=20, over=timedelta(seconds=20))

    def take() -> float | None:
        return rate_limits.consume_event(bucket=bucket, rate=rate)

    assert [take() is None for _ in range(21)] == [True] * 20 + [False]
    wait = take()
    assert wait is not None
    assert 19 < wait <= 20
    pass_time(12)
    wait = take()
    assert wait is not None
    assert 7 < wait <= 8
    pass_time(8)
    assert [take() is None for _ in range(2)] == [True, False]
    pass_time(3600)
    assert [take() is None for _ in range(21)] == [True] * 20 + [False]


@pytest.mark.django_db
@pytest.mark.parametrize("over", [None, timedelta(hours=1)])
def test_a_rate_of_zero_rejects_every_event(bucket: str, over: timedelta | None) -> None:
    rate = conf.Rate(events=0, over=over)
    assert rate_limits.consume_event(bucket=bucket, rate=rate) == math.inf
    assert rate_limits.check_event(bucket=bucket, rate=rate) == math.inf


@pytest.mark.django_db
@pytest.mark.parametrize("rate", [conf.Rate(events=2), conf.Rate(events=2, over=timedelta(minutes=30))])
def test_checking_a_limit_consumes_nothing(bucket: str, rate: conf.Rate) -> None:
    def take() -> float | None:
        return rate_limits.consume_event(bucket=bucket, rate=rate)

    def peek() -> float | None:
        return rate_limits.check_event(bucket=bucket, rate=rate)

    assert peek() is None
    assert not RateLimit.objects.filter(bucket=bucket).exists()
    assert take() is None
    assert [peek() for _ in range(3)] == [None] * 3
    assert take() is None
    foreseen, actual = peek(), take()
    assert foreseen is not None
    assert actual is not None
    assert 0 <= foreseen - actual < 60
    pass_time(3601)
    assert peek() is None
    assert take() is None


@pytest.mark.django_db
def test_cleanup_keeps_active_limits(bucket: str, auth_config: AuthConfig) -> None:
    def rows() -> set[tuple[str, str]]:
        return set(RateLimit.objects.filter(bucket__startswith=bucket).values_list("bucket", "key"))

    weekly = conf.Rate(events=1, over=timedelta(days=7))
    rate_limits.consume_event(bucket=bucket, rate=weekly)
    rate_limits.consume(bucket=f"{bucket}-used", key="a", burst=30, per_second=0.1, life=HOUR)
    rate_limits.allow_once(group=f"{bucket}-mail", key="a@b.co", interval=timedelta(seconds=60))
    pass_time(23 * 3600)
    rate_limits.consume(bucket=f"{bucket}-used", key="a", burst=30, per_second=0.1, life=HOUR)
    assert rate_limits.delete_expired() == 0
    pass_time(2 * 3600)
    auth_config(smtp={"max_frequency": timedelta(days=2)})
    assert rate_limits.delete_expired() == 0
    auth_config(smtp={"max_frequency": None})
    assert rate_limits.delete_expired() == 1
    assert rows() == {(bucket, ""), (f"{bucket}-used", "a")}
    assert rate_limits.consume_event(bucket=bucket, rate=weekly) is not None
    unlimited = conf.Rate(events=10**9, over=HOUR)
    auth_config(limits={"email_sent": unlimited, "sms_sent": conf.Rate(events=2**51, over=timedelta(days=36_500))})
    assert rate_limits.delete_expired() == 0


@pytest.mark.parametrize(
    ("bucket", "burst", "per_second"),
    [
        (Bucket.TOKEN, 30, 300 / 300),
        (Bucket.VERIFY, 30, 60 / 300),
        (Bucket.RECOVER, 30, 15 / 300),
        (Bucket.RESEND, 30, 15 / 300),
        (Bucket.MAGIC_LINK, 30, 15 / 300),
        (Bucket.OTP, 30, 15 / 300),
        (Bucket.SIGNUPS, 30, 15 / 300),
        (Bucket.USER, 30, 15 / 300),
        (Bucket.ANONYMOUS_SIGN_INS, 5, 5.9 / 3600),
    ],
)
def test_each_bucket_uses_its_setting(auth_config: AuthConfig, bucket: Bucket, burst: float, per_second: float) -> None:
    auth_config(limits={"token_refresh": 300, "verify": 60, "otp": 15, "anonymous_users": 5.9})
    assert bucket.parameters == throttling.BucketParameters(burst=burst, per_second=per_second, life=HOUR)


def request_with(**headers: str) -> HttpRequest:
    """A request from 192.0.2.1 with these headers."""
    sent: Any = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return RequestFactory().get("/", REMOTE_ADDR="192.0.2.1", **sent)


def test_without_a_configured_header_the_address_is_the_key() -> None:
    assert client_key(request_with(x="1.2.3.4")) == "192.0.2.1"


@pytest.mark.parametrize(
    ("value", "key"), [("1.2.3.4", "1.2.3.4"), (" a , b", "a"), ("anything at all", "anything at all")]
)
def test_a_configured_header_is_the_key(auth_config: AuthConfig, value: str, key: str) -> None:
    auth_config(limits={"header": "X-Real"})
    assert client_key(request_with(x_real=value, x_forwarded_for="9.9.9.9")) == key


def test_the_forwarded_header_precedes_the_configured_one(auth_config: AuthConfig) -> None:
    auth_config(limits={"header": "X-Real"}, api={"forwarded_for_enabled": True})
    assert client_key(request_with(x_real="b", svc_forwarded_for="192.168.1.100")) == "192.168.1.100"


@pytest.mark.parametrize(
    ("sent", "warning"),
    [
        ({}, "request does not have a value for the rate limiting header, rate limiting is not applied"),
        ({"x_real": ""}, "request does not have a value for the rate limiting header, rate limiting is not applied"),
        ({"x_real": " ,b"}, "first rate limit header value is empty, rate limiting is not applied"),
    ],
)
def test_a_request_without_the_configured_header_is_logged_and_not_limited(
    auth_config: AuthConfig, caplog: pytest.LogCaptureFixture, sent: dict[str, str], warning: str
) -> None:
    auth_config(limits={"header": "X-Real"})
    with caplog.at_level(logging.WARNING):
        throttling.check(Bucket.TOKEN, request_with(**sent))  # without a database, which a limit would need
    assert [record.message for record in caplog.records] == [warning]


@pytest.mark.django_db
def test_requests_beyond_the_burst_are_rejected_per_key_and_bucket(auth_config: AuthConfig, bucket: str) -> None:
    auth_config(limits={"otp": 30})
    for _ in range(30):
        assert throttling.consume(Bucket.OTP, key=bucket) is None
    wait = throttling.consume(Bucket.OTP, key=bucket)
    assert wait is not None
    assert 0 < wait <= 10
    assert throttling.consume(Bucket.OTP, key=f"{bucket}-other") is None
    assert throttling.consume(Bucket.RECOVER, key=bucket) is None


@pytest.mark.django_db
def test_anonymous_sign_ins_have_a_separate_limit(auth_config: AuthConfig, bucket: str) -> None:
    auth_config(limits={"anonymous_users": 0.9})
    assert throttling.consume(Bucket.ANONYMOUS_SIGN_INS, key=bucket) is not None
    auth_config(limits={"anonymous_users": 5})
    for _ in range(5):
        assert throttling.consume(Bucket.ANONYMOUS_SIGN_INS, key=bucket) is None
    assert throttling.consume(Bucket.ANONYMOUS_SIGN_INS, key=bucket) is not None
