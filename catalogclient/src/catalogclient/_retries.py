"""The course of one call: which failures are worth another attempt, after which pause, and what the last one means."""

from __future__ import annotations

import random
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
    UnauthorizedError,
)

_WORTH_REPEATING = (408, 500, 502, 503, 504)
_REFUSED_BEFORE_WORK = (401, 403, 408, 419, 429)
_CARRIED = ("status", "type", "code", "stack", "details", "method", "url", "operation", "request_id", "retry_after")


@dataclass(slots=True, kw_only=True)
class Attempts:
    """Counts the attempts of a call and judges their outcomes; times are those of a monotonic clock, in seconds."""

    operation: Operation
    policy: RetryPolicy | None
    key: str | None
    """The idempotency key of every attempt."""
    key_lifetime: timedelta | None
    """As the server promises it."""
    started_at: float
    deadline: float | None
    number: int = 0
    ambiguous: bool = field(default=False, init=False)
    """An attempt without a clear answer may have been applied."""
    may_refresh: bool = field(default=True, init=False)
    _uncounted: int = field(default=0, init=False)

    def begin(self, *, now: float) -> None:
        """One more attempt. Raises RequestTimeoutError when it is too late for it."""
        if self.deadline is not None and now >= self.deadline:
            raise self.final(RequestTimeoutError("Network request failed: out of time", phase="total"))
        self.number += 1

    def wants_refresh(self, error: CatalogError) -> bool:
        """Whether new credentials may help; said once per call."""
        wanted = self.may_refresh and isinstance(error, UnauthorizedError)
        self.may_refresh = self.may_refresh and not wanted
        return wanted

    def refreshed(self) -> None:
        """The attempt that showed that credentials were old does not count against the policy."""
        self._uncounted = 1

    def pause(self, error: CatalogError, *, now: float) -> float:
        """Seconds until the next attempt. Raises the error that the call ends with when there is none."""
        delay = self._delay(error)
        starts_at = now + (delay or 0.0)
        most = self.policy.max_attempts if self.policy else 1
        exhausted = delay is None or self.number - self._uncounted >= most
        too_late = self.deadline is not None and starts_at >= self.deadline
        if exhausted or too_late or not self._may_resend(error, at=starts_at):
            raise self.final(error)
        self.ambiguous = self.ambiguous or self._is_ambiguous(error)
        return delay or 0.0

    def final(self, error: CatalogError, *, before_sending: bool = False) -> CatalogError:
        """The error that the call ends with, when `error` was its last, perhaps of a request of another kind."""
        self.ambiguous = self.ambiguous or (self._is_ambiguous(error) and not before_sending)
        # An answer of success that cannot be read is what it is; the caller sees that it may have been applied.
        succeeded = 200 <= error.status < 300
        unknown = self.operation.effect is Effect.COMMIT and self.ambiguous and not succeeded
        settled = unknown and self._settles(error)
        outcome = error
        if unknown and not settled and not isinstance(error, CommitStateUnknownError):
            outcome = CommitStateUnknownError(error.message, **{name: getattr(error, name) for name in _CARRIED})
            outcome.__cause__ = error
        outcome.maybe_applied = self.ambiguous and not settled
        outcome.attempts = self.number
        outcome.idempotency_key = self.key
        return outcome

    def _is_ambiguous(self, error: CatalogError) -> bool:
        """Whether the attempt that failed like this may have been applied all the same."""
        if self.operation.effect not in (Effect.CHANGE, Effect.COMMIT):
            return False
        if isinstance(error, NetworkError):
            return error.sent
        if isinstance(error, InvalidResponseError | CommitStateUnknownError):
            return error.status != 304
        return error.status in (500, 502, 503, 504) and not self._is_busy(error)

    def _is_busy(self, error: CatalogError) -> bool:
        """Whether the server says that it has not even begun; of a commit it is not believed."""
        waits = error.status == 503 and error.retry_after is not None and self.operation.effect is not Effect.COMMIT
        return waits or error.status == 429

    def _settles(self, error: CatalogError) -> bool:
        """Whether the answer speaks for all attempts: the server knows them as one, and has judged it."""
        judged = 400 <= error.status < 500 and error.status not in _REFUSED_BEFORE_WORK
        return judged and self.key_lifetime is not None

    def _may_resend(self, error: CatalogError, *, at: float) -> bool:
        effect = self.operation.effect
        if effect is Effect.REPORT or isinstance(error, TlsError):
            return False
        if isinstance(error, NetworkError):
            return not error.sent or effect is Effect.NONE or self._is_recognised(at)
        if self._is_busy(error):
            return True
        return error.status in _WORTH_REPEATING and (effect is Effect.NONE or self._is_recognised(at))

    def _is_recognised(self, at: float) -> bool:
        """Whether the server, asked again at that time, will know the request for the same."""
        if self.operation.effect is Effect.COMMIT and self.policy and self.policy.retry_commits:
            return True
        return self.key_lifetime is not None and at - self.started_at < self.key_lifetime.total_seconds()

    def _delay(self, error: CatalogError) -> float | None:
        if self.policy is None:
            return None
        if self.policy.respect_retry_after and error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.policy.max_retry_after else None
        exponent = min(max(self.number - self._uncounted - 1, 0), 64)
        delay = min(self.policy.backoff_max, self.policy.backoff_base * self.policy.backoff_factor**exponent)
        # Not a secret: it keeps clients from coming back all at once.
        return delay * random.uniform(0.5, 1.0) if self.policy.jitter else delay  # noqa: S311
