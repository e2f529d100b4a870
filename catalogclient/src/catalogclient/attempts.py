"""The course of one call: which failures are worth another attempt, after which pause, and what the last one means."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

from catalogclient.endpoints import Effect, Operation
from catalogclient.errors import (
    CatalogError,
    CommitStateUnknownError,
    InvalidResponseError,
    NetworkError,
    RequestTimeoutError,
    TlsError,
    UnauthorizedError,
    UnexpectedRedirectError,
)
from catalogclient.options import RetryPolicy

_REFUSED_BEFORE_WORK = (401, 403, 408, 419, 429)


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

    def seconds_left(self, now: float) -> float | None:
        """Until the deadline; None without one. Raises RequestTimeoutError after it."""
        if self.deadline is None:
            return None
        if now >= self.deadline:
            raise self.final(RequestTimeoutError(f"{NETWORK_FAILED}: out of time", phase="total"))
        return self.deadline - now

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
        resend = self._may_resend(error, at=now + (delay or 0.0))
        if self.operation.effect is not Effect.NONE and _is_ambiguous(error):
            self.ambiguous = True
        most = self.policy.max_attempts if self.policy else 1
        too_late = self.deadline is not None and now + (delay or 0.0) >= self.deadline
        if delay is None or not resend or self.number - self._uncounted >= most or too_late:
            raise self.final(error)
        return delay

    def final(self, error: CatalogError) -> CatalogError:
        """The error that the call ends with, when `error` was its last."""
        outcome = error
        effect = self.operation.effect
        changing = effect in (Effect.CHANGE, Effect.COMMIT)
        self.ambiguous = self.ambiguous or (changing and _is_ambiguous(error))
        unknown = effect is Effect.COMMIT and self.ambiguous and not self._settles(error)
        if unknown and not isinstance(error, CommitStateUnknownError):
            outcome = CommitStateUnknownError(
                error.message,
                **{name: getattr(error, name) for name in _CARRIED},
            )
            outcome.__cause__ = error
        outcome.maybe_applied = unknown or (changing and self.ambiguous and self._may_be_echo(error))
        outcome.attempts = self.number
        outcome.idempotency_key = self.key
        return outcome

    def _may_be_echo(self, error: CatalogError) -> bool:
        """Whether something may have been applied before, or by, the attempt that ended like this."""
        return _is_ambiguous(error) or self.operation.effect is not Effect.COMMIT

    def _settles(self, error: CatalogError) -> bool:
        """Whether the answer speaks for all attempts: the server knows them as one, and has judged it."""
        judged = 400 <= error.status < 500 and error.status not in _REFUSED_BEFORE_WORK
        return judged and self.key_lifetime is not None

    def _may_resend(self, error: CatalogError, *, at: float) -> bool:
        effect = self.operation.effect
        if effect is Effect.REPORT or isinstance(error, TlsError):
            return False
        if isinstance(error, NetworkError):
            harmless = not error.sent
        else:
            waits = error.status == 503 and error.retry_after is not None and effect is not Effect.COMMIT
            harmless = error.status == 429 or waits
        repeatable = isinstance(error, NetworkError) or error.status in (408, 500, 502, 503, 504)
        return harmless or (repeatable and (effect is Effect.NONE or self._is_recognised(at)))

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


NETWORK_FAILED = "Network request failed"
_CARRIED = ("status", "type", "code", "stack", "details", "method", "url", "operation", "request_id", "retry_after")


def _is_ambiguous(error: CatalogError) -> bool:
    """Whether the attempt that failed like this may have been applied all the same."""
    if isinstance(error, NetworkError):
        return error.sent
    if isinstance(error, InvalidResponseError | UnexpectedRedirectError):
        return error.status < 300 and error.status != 0
    return error.status in (500, 502, 504) or (error.status == 503)
