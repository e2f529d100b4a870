"""Outcomes of calls that end a request."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Self

from django.db import Error as DatabaseError

from authsvc.errors import HookError

MAX_RESPONSE_BYTES = 204_800


class HookRejection(HookError):
    """The hook refuses the request with a message for the client and an HTTP status, 400 to 599."""

    is_refusal = True

    def __init__(self, message: str, *, http_code: int = 500) -> None:
        if not message:
            raise ValueError("a rejection needs a message")
        super().__init__(message)
        self.status = self.http_code = http_code if 400 <= http_code <= 599 else 500
        self.error_code = "unexpected_failure" if self.status == 500 else "unknown"


class HookFailed(HookError):
    """The hook could not be asked, or its response could not be understood."""


class HookTimedOut(HookFailed):
    status = 422
    error_code = "hook_timeout"

    def __init__(self, seconds: str) -> None:
        super().__init__(f"Failed to reach hook within maximum time of {seconds} seconds")

    @classmethod
    def after(cls, timeout: timedelta) -> Self:
        return cls(f"{timeout.total_seconds():f}")


class HookUnreachable(HookFailed):
    """No attempt reached the hook."""

    status = 422
    error_code = "hook_timeout_after_retry"
    message = "Failed to reach hook after maximum retries"


class HookUnavailable(HookFailed):
    """The hook answered 429 or 503."""

    message = "Service currently unavailable due to hook"


class PayloadRefused(HookFailed):
    """The hook answered 400."""

    message = "Invalid payload sent to hook"


class HookUnauthorized(HookFailed):
    """The hook answered 401."""

    message = "Hook requires authorization token"


class UnexpectedHookStatus(HookFailed):
    def __init__(self, status: int) -> None:
        super().__init__(f"Unexpected status code returned from hook: {status}")


class InvalidHookContentType(HookFailed):
    status = 400
    error_code = "hook_payload_invalid_content_type"
    message = "Invalid Content-Type: Missing Content-Type header"


class HookResponseTooLarge(HookFailed):
    status = 422
    error_code = "hook_payload_over_size_limit"
    message = f"Payload size exceeded size limit of {MAX_RESPONSE_BYTES} bytes"


class InvalidHookResponse(HookFailed):
    """The response is not JSON, or has another shape."""

    message = "Error unmarshaling JSON output."


class HookErrored(HookFailed):
    """The function of the hook failed, or the connection was lost while its response was read."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"Error running hook URI: {uri}")


class HookFunctionRefused(HookRejection):
    """The database function of the hook raised an error for the client."""

    raised_by_function: DatabaseError

    def __init__(self, uri: str, error: DatabaseError) -> None:
        super().__init__(f"Error running hook URI: {uri}")
        self.raised_by_function = error


class ClaimsMissing(HookFailed):
    """The response of the hook for access tokens has no claims."""

    message = "output claims field is missing"


class InvalidClaims(HookFailed):
    """The claims of the hook lack a required one, have a wrong type, or change one that must stay as it is."""

    def __init__(self, violations: Iterable[str]) -> None:
        lines = "".join(f"- {violation}\n" for violation in violations)
        super().__init__(f"output claims do not conform to the expected schema: \n{lines}")
