"""Outcomes of sign-ins: a counter by method and outcome, a log line for each success, audit entries of refusals."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from authsvc import audit
from authsvc.caller import Caller
from authsvc.errors import ApiError, OAuthError, RequestRateExceeded
from authsvc.observability import metrics

P = ParamSpec("P")
Result = TypeVar("Result")

SUCCEEDED = "succeeded"
_FAILURES = frozenset({"server_error", "temporarily_unavailable"})
_NO_REFUSALS = frozenset({"validation_failed", "bad_json", "signup_disabled", "provider_email_needs_verification"})
_INSTANCE = str(UUID(int=0))

logger = logging.getLogger(__name__)


def measure_sign_in(
    method: str, *, user_id: Callable[[Any], UUID | None]
) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Decorate a function with the arguments `caller` and `at` that signs a user in; record its success or failure.

    A refusal is an audit entry too, of the account in `caller.audit`. `user_id` extracts the user's id from the result;
    None when the sign-in is not complete, or when the function has recorded it itself.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                metrics.SIGN_INS.labels(method, outcome_of(error)).inc()
                if _is_refusal(error):
                    caller, at = cast(Caller, kwargs["caller"]), cast(datetime, kwargs["at"])
                    audit.record_refused_sign_in(method=method, error_code=outcome_of(error), caller=caller, at=at)
                raise
            signed_in_id = user_id(result)
            if signed_in_id is not None:
                record_sign_in(method, user_id=signed_in_id)
            return result

        return wrapper

    return decorate


def record_sign_in(method: str, *, user_id: UUID, provider: str = "") -> None:
    """Count a successful sign-in, and write its log line."""
    metrics.SIGN_INS.labels(method, SUCCEEDED).inc()
    log_sign_in(method, user_id=user_id, provider=provider)


def log_sign_in(method: str, *, user_id: UUID, provider: str = "") -> None:
    """Write the log line only, for a refresh, which does not count as a sign-in."""
    fields = {
        "metering": True,
        "action": "login",
        "login_method": method,
        "instance_id": _INSTANCE,
        "user_id": str(user_id),
    }
    logger.info("Login", extra=fields | ({"provider": provider} if provider else {}))


def _is_refusal(error: Exception) -> bool:
    """True if a credential or an account was refused; False for malformed requests, limits and server failures."""
    if isinstance(error, OAuthError):
        return error.error not in _FAILURES
    return (
        isinstance(error, ApiError)
        and error.status < 500
        and not isinstance(error, RequestRateExceeded)
        and error.error_code not in _NO_REFUSALS
    )


def outcome_of(error: Exception) -> str:
    """The label of a failed attempt, from a bounded set."""
    if isinstance(error, ApiError):
        return error.error_code
    # The error codes of a provider are unbounded.
    return "oauth_error" if isinstance(error, OAuthError) else "failed"
