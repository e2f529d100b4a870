"""Retry decisions with a fixed clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from catalogclient import (
    AlreadyExistsError,
    CatalogError,
    CommitFailedError,
    CommitStateUnknownError,
    ConnectError,
    Endpoint,
    InvalidResponseError,
    NetworkError,
    NoSuchTableError,
    RequestTimeoutError,
    ResponseError,
    RetryPolicy,
    ServerError,
    ServiceUnavailableError,
    TlsError,
    TooManyRequestsError,
    UnauthorizedError,
    UnsupportedOperationError,
)
from catalogclient._endpoints import OPERATIONS
from catalogclient._retries import RetryState

EXACT = RetryPolicy(jitter=False)
HOUR = timedelta(hours=1)
LOAD, CREATE, COMMIT = Endpoint.LOAD_TABLE, Endpoint.CREATE_TABLE, Endpoint.UPDATE_TABLE
DROP, REPORT, PLAN = Endpoint.DROP_TABLE, Endpoint.REPORT_METRICS, Endpoint.PLAN_TABLE_SCAN


def attempts(endpoint: Endpoint, *, known: bool = False, policy: RetryPolicy | None = EXACT, **more: Any) -> RetryState:
    fields: dict[str, Any] = {"key": "k", "key_lifetime": HOUR if known else None, "deadline": None, **more}
    return RetryState(operation=OPERATIONS[endpoint], policy=policy, started_at=0.0, number=1, **fields)


def lost(kind: type[NetworkError] = NetworkError) -> NetworkError:
    error = kind("Network request failed: reset")
    error.sent = True
    return error


GATEWAY_STATUSES = (507, 520, 522, 524, 529, 530, 598, 599)
"""Statuses that are not repeated, but may follow a request that was processed."""
OUTCOMES: dict[str, CatalogError] = {
    "not connected": ConnectError("x"),
    "TLS": TlsError("x"),
    "429": TooManyRequestsError("x", status=429),
    "503 later": ServiceUnavailableError("x", status=503, retry_after=1.0),
    "503": ServiceUnavailableError("x", status=503),
    "408": ResponseError("x", status=408),
    "500": ServerError("x", status=500),
    "502": ServerError("x", status=502),
    "504": ServerError("x", status=504),
    "lost": lost(),
    "read time-out": lost(RequestTimeoutError),
    "400": ResponseError("x", status=400),
    "501": UnsupportedOperationError("x", status=501),
    "505": ServerError("x", status=505),
    **{str(status): ServerError("x", status=status) for status in GATEWAY_STATUSES},
}
NEVER: set[str] = {"TLS", "400", "501", "505", *map(str, GATEWAY_STATUSES)}
HARMLESS = {"not connected", "429"}
MATRIX = {
    "reading": (LOAD, False, set(OUTCOMES) - NEVER),
    "reading by POST": (PLAN, False, set(OUTCOMES) - NEVER),
    "change, key known": (CREATE, True, set(OUTCOMES) - NEVER),
    "change": (CREATE, False, HARMLESS | {"503 later"}),
    "commit, key known": (COMMIT, True, set(OUTCOMES) - NEVER),
    "commit": (COMMIT, False, HARMLESS),
    "report": (REPORT, True, set()),
}


@pytest.mark.parametrize("row", MATRIX)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_repeated_requests(row: str, outcome: str) -> None:
    endpoint, known, again = MATRIX[row]
    course = attempts(endpoint, known=known)
    if outcome in again:
        assert course.next_delay(OUTCOMES[outcome], now=0.0) == (1.0 if outcome == "503 later" else 0.5)
    else:
        with pytest.raises(CatalogError):
            course.next_delay(OUTCOMES[outcome], now=0.0)


@pytest.mark.parametrize(
    "outcome", ["500", "502", "503", "504", "503 later", "lost", "read time-out", *map(str, GATEWAY_STATUSES)]
)
@pytest.mark.parametrize("endpoint", [COMMIT, Endpoint.COMMIT_TRANSACTION, Endpoint.REPLACE_VIEW])
def test_a_commit_with_an_inconclusive_response_is_unknown(endpoint: Endpoint, outcome: str) -> None:
    failure = OUTCOMES[outcome]
    with pytest.raises(CommitStateUnknownError) as caught:
        attempts(endpoint).next_delay(failure, now=0.0)
    error = caught.value
    assert error.__cause__ is failure
    assert error.is_commit_state_unknown
    assert error.maybe_applied
    assert (error.status, error.attempts, error.idempotency_key) == (failure.status, 1, "k")


@pytest.mark.parametrize("outcome", ["408", "501", "505", "400", "TLS"])
def test_a_rejected_commit_keeps_its_error(outcome: str) -> None:
    with pytest.raises(CatalogError) as caught:
        attempts(COMMIT).next_delay(OUTCOMES[outcome], now=0.0)
    assert caught.value is OUTCOMES[outcome]
    assert not caught.value.maybe_applied


@pytest.mark.parametrize(
    ("outcome", "maybe"),
    [
        *((outcome, True) for outcome in ("500", "503", "lost", *map(str, GATEWAY_STATUSES))),
        *((outcome, False) for outcome in ("400", "408", "501", "505", "TLS")),
    ],
)
def test_maybe_applied_of_a_change(outcome: str, maybe: bool) -> None:
    with pytest.raises(CatalogError) as caught:
        attempts(CREATE).next_delay(OUTCOMES[outcome], now=0.0)
    assert caught.value.maybe_applied is maybe
    with pytest.raises(CatalogError) as caught:
        attempts(LOAD, policy=None).next_delay(OUTCOMES[outcome], now=0.0)
    assert not caught.value.maybe_applied


@pytest.mark.parametrize(
    ("endpoint", "echo"),
    [(DROP, NoSuchTableError("x", status=404)), (CREATE, AlreadyExistsError("x", status=409))],
)
def test_errors_after_an_ambiguous_attempt_are_maybe_applied(endpoint: Endpoint, echo: CatalogError) -> None:
    course = attempts(endpoint, known=True)
    course.next_delay(lost(), now=0.0)
    with pytest.raises(type(echo)) as caught:
        course.next_delay(echo, now=1.0)
    assert caught.value.maybe_applied
    with pytest.raises(type(echo)) as caught:
        attempts(endpoint, known=True).next_delay(type(echo)("x", status=echo.status), now=1.0)
    assert not caught.value.maybe_applied


def test_a_conflict_after_a_lost_response_is_unknown_without_advertised_keys() -> None:
    course = attempts(COMMIT, policy=RetryPolicy(retry_commits=True))
    course.next_delay(lost(RequestTimeoutError), now=0.0)
    conflict = CommitFailedError("x", status=409)
    with pytest.raises(CommitStateUnknownError) as caught:
        course.next_delay(conflict, now=1.0)
    assert caught.value.__cause__ is conflict


def test_a_conflict_after_a_lost_response_is_conclusive_with_advertised_keys() -> None:
    course = attempts(COMMIT, known=True)
    course.next_delay(lost(), now=0.0)
    with pytest.raises(CommitFailedError) as caught:
        course.next_delay(CommitFailedError("x", status=409), now=1.0)
    assert not caught.value.maybe_applied
    course = attempts(COMMIT, known=True)
    course.next_delay(lost(), now=0.0)
    with pytest.raises(CommitStateUnknownError):
        course.next_delay(UnauthorizedError("x", status=401), now=1.0)


def test_a_commit_with_two_lost_responses_is_unknown() -> None:
    course = attempts(COMMIT, known=True, policy=RetryPolicy(max_attempts=2))
    course.next_delay(lost(), now=0.0)
    course.number = 2
    with pytest.raises(CommitStateUnknownError):
        course.next_delay(ConnectError("x"), now=1.0)


def test_an_invalid_response_to_a_change_is_maybe_applied() -> None:
    for endpoint, maybe in ((COMMIT, True), (CREATE, True), (LOAD, False)):
        with pytest.raises(InvalidResponseError) as caught:
            attempts(endpoint).next_delay(InvalidResponseError("x", status=200), now=0.0)
        assert caught.value.maybe_applied is maybe
        assert caught.value.is_commit_state_unknown is (endpoint is COMMIT)


def test_delays_double_up_to_the_maximum() -> None:
    course = attempts(LOAD, policy=RetryPolicy(max_attempts=9, backoff_max=3.0, jitter=False))
    pauses = []
    for course.number in range(1, 6):
        pauses.append(course.next_delay(OUTCOMES["500"], now=0.0))
    assert pauses == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_is_between_half_and_full_delay() -> None:
    course = attempts(LOAD, policy=RetryPolicy())
    pauses = {course.next_delay(OUTCOMES["500"], now=0.0) for _ in range(200)}
    assert len(pauses) > 100
    assert min(pauses) >= 0.25
    assert max(pauses) <= 0.5


@pytest.mark.parametrize(
    ("requested", "policy", "pause"),
    [(2.0, EXACT, 2.0), (0.0, EXACT, 0.0), (2.0, RetryPolicy(respect_retry_after=False, jitter=False), 0.5)],
)
def test_retry_after_is_the_delay(requested: float, policy: RetryPolicy, pause: float) -> None:
    error = TooManyRequestsError("x", status=429, retry_after=requested)
    assert attempts(COMMIT, policy=policy).next_delay(error, now=0.0) == pause


def test_a_long_retry_after_ends_the_call() -> None:
    error = ServiceUnavailableError("x", status=503, retry_after=3600.0)
    with pytest.raises(ServiceUnavailableError):
        attempts(LOAD).next_delay(error, now=0.0)


def test_attempts_are_limited() -> None:
    course = attempts(LOAD)
    for course.number in (1, 2, 3):
        course.next_delay(OUTCOMES["500"], now=0.0)
    course.number = 4
    with pytest.raises(ServerError) as caught:
        course.next_delay(ServerError("x", status=500), now=0.0)
    assert caught.value.attempts == 4
    with pytest.raises(ServerError):
        attempts(LOAD, policy=None).next_delay(OUTCOMES["500"], now=0.0)


def test_no_attempt_begins_after_the_deadline() -> None:
    course = attempts(LOAD, deadline=1.0)
    assert course.next_delay(OUTCOMES["500"], now=0.4) == 0.5
    with pytest.raises(ServerError):
        course.next_delay(OUTCOMES["500"], now=0.6)
    with pytest.raises(RequestTimeoutError) as caught:
        course.begin_attempt(now=1.0)
    assert caught.value.phase == "total"
    assert caught.value.attempts == 1
    course.begin_attempt(now=0.9)
    assert course.number == 2
    attempts(LOAD).begin_attempt(now=1e9)


def test_an_expired_key_is_not_reused() -> None:
    course = attempts(CREATE, key_lifetime=timedelta(seconds=1))
    assert course.next_delay(OUTCOMES["500"], now=0.4) == 0.5
    with pytest.raises(ServerError):
        course.next_delay(ServerError("x", status=500), now=0.6)


def test_the_attempt_with_expired_credentials_is_not_counted() -> None:
    course = attempts(LOAD, policy=RetryPolicy(max_attempts=2, jitter=False))
    caught = UnauthorizedError("x", status=401)
    assert course.should_refresh_credentials(caught)
    course.credentials_refreshed()
    assert not course.should_refresh_credentials(caught)
    course.number = 2
    assert course.next_delay(OUTCOMES["500"], now=0.0) == 0.5
    assert not attempts(LOAD).should_refresh_credentials(ResponseError("x", status=403))
    # The status decides, not the type in the body.
    assert attempts(LOAD).should_refresh_credentials(NoSuchTableError("x", status=401))
    assert not attempts(COMMIT).should_refresh_credentials(UnauthorizedError("x", status=500))
