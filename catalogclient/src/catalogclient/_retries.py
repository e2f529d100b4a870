"""Decides for each failed attempt of a call: retry, delay, or the error that the caller gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from catalogclient._endpoints import Effect, Operation
from catalogclient._options import RetryPolicy
from catalogclient.errors import (
    CatalogError,
    CommitStateUnknownError,
    InvalidResponseError,
    NetworkError,
    RequestTimeoutError,
    TlsError,
)

_RETRYABLE_STATUSES = (408, 500, 502, 503, 504)
_NOT_IMPLEMENTED = (501, 505)
"""Statuses above 500 of requests that were not processed."""
_REJECTED_CREDENTIALS = (401, 419)
_REJECTED_BEFORE_PROCESSING = (401, 403, 408, 419, 429)
_COPIED_FIELDS = (
    "status",
    "type",
    "code",
    "stack",
    "details",
    "method",
    "url",
    "operation",
    "request_id",
    "retry_after",
)


@dataclass(slots=True, kw_only=True)
class RetryState:
    """Counts the attempts of a call and classifies their failures. Times are seconds of the monotonic clock."""

    operation: Operation
    policy: RetryPolicy | None
    key: str | None
    """Idempotency key, the same for all attempts."""
    key_lifetime: timedelta | None
    """Lifetime of the key as the server advertises it."""
    started_at: float
    deadline: float | None
    number: int = 0
    ambiguous: bool = field(default=False, init=False)
    """True after an attempt that may have been applied although it failed."""
    may_refresh: bool = field(default=True, init=False)
    _uncounted: int = field(default=0, init=False)

    def begin_attempt(self, *, now: float) -> None:
        """Count one more attempt. Raises RequestTimeoutError after the deadline."""
        if self.deadline is not None and now >= self.deadline:
            raise self.final(RequestTimeoutError("Network request failed: deadline exceeded", phase="total"))
        self.number += 1

    def should_refresh_credentials(self, error: CatalogError) -> bool:
        """Return True for the first 401 or 419 of a call."""
        should = self.may_refresh and error.status in _REJECTED_CREDENTIALS
        self.may_refresh = self.may_refresh and not should
        return should

    def credentials_refreshed(self) -> None:
        """Exclude the attempt with expired credentials from `max_attempts`."""
        self._uncounted = 1

    def next_delay(self, error: CatalogError, *, now: float) -> float:
        """Return the seconds until the next attempt. Raises the final error of the call if there is none."""
        delay = self._delay(error)
        starts_at = now + (delay or 0.0)
        max_attempts = self.policy.max_attempts if self.policy else 1
        exhausted = delay is None or self.number - self._uncounted >= max_attempts
        too_late = self.deadline is not None and starts_at >= self.deadline
        if exhausted or too_late or not self._may_resend(error, at=starts_at):
            raise self.final(error)
        self.ambiguous = self.ambiguous or self._is_ambiguous(error)
        return delay or 0.0

    def final(self, error: CatalogError, *, before_sending: bool = False) -> CatalogError:
        """Return the error of the call whose last failure is `error`.

        `before_sending` means that `error` occurred before the last attempt was sent.
        """
        self.ambiguous = self.ambiguous or (self._is_ambiguous(error) and not before_sending)
        # An unreadable response with a success status keeps its class. `maybe_applied` is set.
        succeeded = 200 <= error.status < 300
        unknown = self.operation.effect is Effect.COMMIT and self.ambiguous and not succeeded
        conclusive = unknown and self._is_conclusive(error)
        outcome = error
        if unknown and not conclusive and not isinstance(error, CommitStateUnknownError):
            outcome = CommitStateUnknownError(error.message, **{name: getattr(error, name) for name in _COPIED_FIELDS})
            outcome.__cause__ = error
        outcome.maybe_applied = self.ambiguous and not conclusive
        if outcome.maybe_applied and self.operation.effect is Effect.COMMIT:
            outcome.is_commit_state_unknown = True
        outcome.attempts = self.number
        outcome.idempotency_key = self.key
        return outcome

    def _is_ambiguous(self, error: CatalogError) -> bool:
        """Return True if the failed attempt may have been applied."""
        if self.operation.effect not in (Effect.CHANGE, Effect.COMMIT):
            return False
        if isinstance(error, NetworkError):
            return error.sent
        if isinstance(error, InvalidResponseError | CommitStateUnknownError):
            return error.status != 304
        # Gateways report a lost connection to the server with statuses of their own, such as 524 and 599.
        return error.status >= 500 and error.status not in _NOT_IMPLEMENTED and not self._is_busy(error)

    def _is_busy(self, error: CatalogError) -> bool:
        """Return True if the server did not process the request: 429, or 503 with Retry-After except for commits."""
        is_overloaded = (
            error.status == 503 and error.retry_after is not None and self.operation.effect is not Effect.COMMIT
        )
        return is_overloaded or error.status == 429

    def _is_conclusive(self, error: CatalogError) -> bool:
        """Return True if the response is valid for all attempts, because the server recognises the key."""
        processed = 400 <= error.status < 500 and error.status not in _REJECTED_BEFORE_PROCESSING
        return processed and self.key_lifetime is not None

    def _may_resend(self, error: CatalogError, *, at: float) -> bool:
        effect = self.operation.effect
        if effect is Effect.REPORT or isinstance(error, TlsError):
            return False
        if isinstance(error, NetworkError):
            return not error.sent or effect is Effect.NONE or self._is_key_valid(at)
        if self._is_busy(error):
            return True
        return error.status in _RETRYABLE_STATUSES and (effect is Effect.NONE or self._is_key_valid(at))

    def _is_key_valid(self, at: float) -> bool:
        """Return True if a repeated request at that time is safe: the key is valid, or `retry_commits` is set."""
        if self.operation.effect is Effect.COMMIT and self.policy and self.policy.retry_commits:
            return True
        return self.key_lifetime is not None and at - self.started_at < self.key_lifetime.total_seconds()

    def _delay(self, error: CatalogError) -> float | None:
        if self.policy is None:
            return None
        if self.policy.respect_retry_after and error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.policy.max_retry_after else None
        return self.policy.delay(self.number - self._uncounted)
