"""What is told of every attempt to sign in: a figure by method and outcome, and a log line for one that succeeded."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from authsvc.errors import ApiError, OAuthError
from authsvc.observability import metrics

P = ParamSpec("P")
Done = TypeVar("Done")

SUCCEEDED = "succeeded"
_INSTANCE = str(UUID(int=0))

logger = logging.getLogger(__name__)


def watched(method: str, *, who: Callable[[Any], UUID | None]) -> Callable[[Callable[P, Done]], Callable[P, Done]]:
    """Tell of a journey that signs somebody in by `method`.

    `who` finds the user's id in what the journey returns; None when nobody is signed in by it yet, or it tells itself.
    """

    def around(journey: Callable[P, Done]) -> Callable[P, Done]:
        @functools.wraps(journey)
        def run(*args: P.args, **kwargs: P.kwargs) -> Done:
            try:
                done = journey(*args, **kwargs)
            except Exception as error:
                metrics.SIGN_INS.labels(method, outcome(error)).inc()
                raise
            user_id = who(done)
            if user_id is not None:
                succeeded(method, user_id=user_id)
            return done

        return run

    return around


def succeeded(method: str, *, user_id: UUID, provider: str = "") -> None:
    metrics.SIGN_INS.labels(method, SUCCEEDED).inc()
    note(method, user_id=user_id, provider=provider)


def note(method: str, *, user_id: UUID, provider: str = "") -> None:
    """The log line alone: for a refresh, which is no sign-in but one more use of it."""
    fields = {
        "metering": True,
        "action": "login",
        "login_method": method,
        "instance_id": _INSTANCE,
        "user_id": str(user_id),
    }
    logger.info("Login", extra=fields | ({"provider": provider} if provider else {}))


def outcome(error: Exception) -> str:
    """A refusal in one word of those there are."""
    if isinstance(error, ApiError):
        return error.error_code
    # What a provider says of an error is its own choice of words, or the client's.
    return "oauth_error" if isinstance(error, OAuthError) else "failed"
