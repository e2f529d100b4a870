"""Metrics and log lines of sign-ins: a counter by method and outcome, and a log line for each success."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from authsvc.errors import ApiError, OAuthError
from authsvc.observability import metrics

P = ParamSpec("P")
Result = TypeVar("Result")

SUCCEEDED = "succeeded"
_INSTANCE = str(UUID(int=0))

logger = logging.getLogger(__name__)


def measure_sign_in(
    method: str, *, user_id: Callable[[Any], UUID | None]
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Decorates a function that signs a user in by `method`, and records its success or failure.

    `user_id` extracts the user's id from the result; None when the sign-in is not complete, or when the function has
    recorded it itself.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                metrics.SIGN_INS.labels(method, outcome_of(error)).inc()
                raise
            signed_in_id = user_id(result)
            if signed_in_id is not None:
                record_sign_in(method, user_id=signed_in_id)
            return result

        return wrapper

    return decorate


def record_sign_in(method: str, *, user_id: UUID, provider: str = "") -> None:
    metrics.SIGN_INS.labels(method, SUCCEEDED).inc()
    log_sign_in(method, user_id=user_id, provider=provider)


def log_sign_in(method: str, *, user_id: UUID, provider: str = "") -> None:
    """Writes the log line only, for a refresh, which does not count as a sign-in."""
    fields = {
        "metering": True,
        "action": "login",
        "login_method": method,
        "instance_id": _INSTANCE,
        "user_id": str(user_id),
    }
    logger.info("Login", extra=fields | ({"provider": provider} if provider else {}))


def outcome_of(error: Exception) -> str:
    """The label of a failed attempt, from a bounded set."""
    if isinstance(error, ApiError):
        return error.error_code
    # The error codes of a provider are unbounded.
    return "oauth_error" if isinstance(error, OAuthError) else "failed"
