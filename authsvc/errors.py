"""Base classes of API errors, and the errors that no single app owns.

Each error is a class named after the condition. `status` is the HTTP status, `error_code` the stable identifier in
responses, logs and metrics, and `message` the text that clients show.
"""

from __future__ import annotations

import math
from typing import ClassVar


class ApiError(Exception):
    """An error with a documented response."""

    status: int = 500
    error_code: str = "unexpected_failure"
    message: str = "Unexpected failure, please check server logs for more information"
    hint: str = ""
    """Instruction for correcting the request, for developers, where the message alone misleads."""
    retry_after: float | None = None
    """Seconds until the same request may succeed, None if unknown."""
    raised_by_function: Exception | None = None
    """The database error with which a function of the operator refused the request."""

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        if message is not None:
            self.message = message
        if retry_after is not None:
            self.retry_after = retry_after
        super().__init__(self.message)

    def extra(self) -> dict[str, object]:
        """Additional members of the response body."""
        return {}


class OAuthError(Exception):
    """An error in the format of RFC 6749 §5.2: status 400, `error` and `error_description`."""

    status: ClassVar[int] = 400

    def __init__(self, error: str, description: str) -> None:
        self.error = error
        self.description = description
        super().__init__(f"{error}: {description}")


class HookError(ApiError):
    """A hook has refused the request, or has failed."""

    is_refusal: ClassVar[bool] = False
    """True if the hook was asked and has refused, so that it has done nothing."""


class UnexpectedFailure(ApiError):
    """A failure of the server; the cause is in the log."""


class BadJson(ApiError):
    status = 400
    error_code = "bad_json"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Could not parse request body as JSON: {reason}")


class ValidationFailed(ApiError):
    status = 400
    error_code = "validation_failed"


class UnprocessableInput(ApiError):
    """A well-formed value that is not accepted (422)."""

    status = 422
    error_code = "validation_failed"


class BodyTooLarge(ApiError):
    status = 413
    error_code = "request_entity_too_large"
    message = "Request body too large (max 1048576 bytes)"


class RequestBodyTimedOut(ApiError):
    status = 408
    error_code = "request_timeout"
    message = "The request body did not arrive in time"


class ServiceBusy(ApiError):
    """Too many requests wait for other servers, or too much of unfinished requests is in memory."""

    status = 503
    error_code = "over_capacity"
    message = "The service is busy, please retry after a moment"


class DatabaseUnavailable(ApiError):
    """The database cannot be reached, has no room for a connection or a row, has no primary, or reports a conflict."""

    status = 503
    error_code = "database_unavailable"
    message = "The database is not available, please retry after a moment"
    retry_after = 1


class NotFound(ApiError):
    status = 404
    error_code = "unknown"
    message = "Not Found"


class MethodNotAllowed(ApiError):
    status = 405
    error_code = "unknown"
    message = "Method Not Allowed"


class RequestTimedOut(ApiError):
    status = 504
    error_code = "request_timeout"
    message = "Processing this request timed out, please retry after a moment."


class RequestRateExceeded(ApiError):
    status = 429
    error_code = "over_request_rate_limit"
    message = "Request rate limit reached"


class EmailSentTooRecently(ApiError):
    status = 429
    error_code = "over_email_send_rate_limit"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"For security purposes, you can only request this after {seconds} seconds.")
        self.retry_after = max(seconds, 1)


class EmailRateExceeded(ApiError):
    status = 429
    error_code = "over_email_send_rate_limit"
    message = "email rate limit exceeded"

    def __init__(self, wait: float = math.inf) -> None:
        super().__init__()
        self.retry_after = _whole_seconds(wait)


class SmsSentTooRecently(ApiError):
    status = 429
    error_code = "over_sms_send_rate_limit"

    def __init__(self, seconds: int) -> None:
        super().__init__(f"For security purposes, you can only request this after {seconds} seconds.")
        self.retry_after = max(seconds, 1)


class SmsRateExceeded(ApiError):
    status = 429
    error_code = "over_sms_send_rate_limit"
    message = "SMS rate limit exceeded"

    def __init__(self, wait: float = math.inf) -> None:
        super().__init__()
        self.retry_after = _whole_seconds(wait)


class SmsGatewayMissing(UnexpectedFailure):
    """An SMS is requested, but no SMS provider is configured."""

    message = "Unable to get SMS provider"


def _whole_seconds(wait: float) -> int | None:
    """Round a wait up to whole seconds, at least 1; None for an infinite one."""
    return max(1, math.ceil(wait)) if math.isfinite(wait) else None
