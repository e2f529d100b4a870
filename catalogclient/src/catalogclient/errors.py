"""Exception classes. Every failure of the library is an instance of `CatalogError`.

CatalogError
├─ InvalidArgumentError · ClientClosedError · UnsupportedEndpointError      no request was sent
├─ NetworkError: ConnectError · TlsError · RequestTimeoutError              no complete response was received
├─ InvalidResponseError · UnexpectedRedirectError                           the response is not usable
├─ ResponseError                                                            the server returned status 400 or above
│   ├─ BadRequestError · UnprocessableEntityError · TooManyRequestsError
│   ├─ UnauthorizedError: AuthenticationTimeoutError
│   ├─ ForbiddenError · UnsupportedOperationError
│   ├─ NotFoundError: NoSuch{Warehouse,Namespace,Table,View,Function,PlanId,PlanTask}Error
│   ├─ ConflictError: AlreadyExistsError · NamespaceNotEmptyError · CommitFailedError
│   └─ ServerError: ServiceUnavailableError
├─ CommitStateUnknownError                                                  a commit may have been applied
├─ OAuthError                                                               the token endpoint returned an error
└─ ScanPlanningError: PlanFailedError · PlanCancelledError · PlanTimeoutError
"""

from __future__ import annotations

from typing import Any, Literal

from catalogclient import _redact


class CatalogError(Exception):
    """Base class of all errors. The text is the server's message if it sent one, and never contains secrets."""

    message: str
    status: int
    """HTTP status; 0 if there was no response."""
    type: str | None
    """Error type of the response body, for example `NoSuchTableException`."""
    code: int | None
    """Numeric code of the response body. It may differ from `status`."""
    stack: list[str]
    """Lines of the server's stack trace."""
    details: Any
    """Parsed body of the error response, or up to 2,000 characters of its text. For a network failure, its cause."""
    method: str | None
    url: str | None
    """Request URL without the query."""
    operation: str | None
    """Name of the RestCatalog method."""
    request_id: str | None
    retry_after: float | None
    """Value of Retry-After in seconds."""
    attempts: int
    """Number of attempts, including attempts that did not connect."""
    idempotency_key: str | None
    maybe_applied: bool
    """True if the change may have taken effect although the call failed."""
    is_commit_state_unknown: bool
    """True for CommitStateUnknownError, and for an invalid response to a commit. The commit may have been applied."""

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        type: str | None = None,
        code: int | None = None,
        stack: list[str] | None = None,
        details: Any = None,
        method: str | None = None,
        url: str | None = None,
        operation: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        attempts: int = 0,
        idempotency_key: str | None = None,
        maybe_applied: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.code = code
        self.stack = stack or []
        self.details = details
        self.method = method
        self.url = url
        self.operation = operation
        self.request_id = request_id
        self.retry_after = retry_after
        self.attempts = attempts
        self.idempotency_key = idempotency_key
        self.maybe_applied = maybe_applied
        self.is_commit_state_unknown = type == "CommitStateUnknownException"

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_unauthorized(self) -> bool:
        return self.status == 401

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_authentication_timeout(self) -> bool:
        return self.status == 419

    @property
    def is_retryable(self) -> bool:
        """True if a request without side effects may succeed when it is sent again."""
        return self.status in (408, 429, 500, 502, 503, 504)

    def __str__(self) -> str:
        kind = " ".join(part for part in (f"HTTP {self.status}" if self.status else "", self.type or "") if part)
        where = ", ".join(part for part in (kind, self.operation or "") if part)
        text = _redact.one_line(self.message)
        return f"{text} [{_redact.one_line(where)}]" if where else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # `details` is dropped: it may hold a socket, or request data that the server echoed.
        state = {**vars(self), "details": None}
        return _restore, (type(self), self.message, state)


def _restore(kind: type[CatalogError], message: str, state: dict[str, Any]) -> CatalogError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    vars(error).update(state)
    return error


class InvalidArgumentError(CatalogError, ValueError):
    """An argument or option is invalid. No request was sent."""


class ClientClosedError(CatalogError):
    """The catalog was closed."""


class UnsupportedEndpointError(CatalogError):
    """The server does not list the endpoint and `endpoint_check="strict"` is set. No request was sent."""


class NetworkError(CatalogError):
    """No response, or an incomplete response, was received."""

    sent = False
    """True if the request may have reached the server."""

    @property
    def is_retryable(self) -> bool:
        return not isinstance(self, TlsError)


class ConnectError(NetworkError):
    """The connection failed: unknown host name, connection refused or unreachable host. No request was sent."""


class TlsError(NetworkError):
    """The TLS handshake failed. No request was sent."""


class RequestTimeoutError(NetworkError, TimeoutError):
    """A timeout expired: of the connection (`connect`), of the next bytes (`read`), or of the whole call (`total`)."""

    phase: Literal["connect", "read", "total"]

    def __init__(self, message: str = "", *, phase: Literal["connect", "read", "total"] = "read", **more: Any) -> None:
        super().__init__(message, **more)
        self.phase = phase


class InvalidResponseError(CatalogError):
    """The response does not match the OpenAPI document."""


class UnexpectedRedirectError(CatalogError):
    """The server answered with a redirect. Redirects are not followed, because they would forward credentials."""

    location: str | None

    def __init__(self, message: str = "", *, location: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.location = location


class ResponseError(CatalogError):
    """The server returned status 400 or above."""


class BadRequestError(ResponseError):
    """Status 400."""


class UnprocessableEntityError(ResponseError):
    """Status 422."""


class TooManyRequestsError(ResponseError):
    """Status 429."""


class UnauthorizedError(ResponseError):
    """Status 401."""


class AuthenticationTimeoutError(UnauthorizedError):
    """Status 419: the credentials have expired."""


class ForbiddenError(ResponseError):
    """Status 403."""


class UnsupportedOperationError(ResponseError):
    """Status 405, 406 or 501."""


class NotFoundError(ResponseError):
    """Status 404."""


class NoSuchWarehouseError(NotFoundError):
    """The warehouse does not exist."""


class NoSuchNamespaceError(NotFoundError):
    """The namespace does not exist."""


class NoSuchTableError(NotFoundError):
    """The table does not exist."""


class NoSuchViewError(NotFoundError):
    """The view does not exist."""


class NoSuchFunctionError(NotFoundError):
    """The function does not exist."""


class NoSuchPlanIdError(NotFoundError):
    """The scan plan does not exist or has expired."""


class NoSuchPlanTaskError(NotFoundError):
    """The plan task does not exist or has expired."""


class ConflictError(ResponseError):
    """Status 409."""


class AlreadyExistsError(ConflictError):
    """An object with that name exists."""


class NamespaceNotEmptyError(ConflictError):
    """The namespace is not empty. Some servers report this with status 400."""


class CommitFailedError(ConflictError):
    """A requirement of the commit does not hold, because the table was changed concurrently. Nothing was changed."""


class ServerError(ResponseError):
    """Status 500 or above."""


class ServiceUnavailableError(ServerError):
    """Status 503."""


class CommitStateUnknownError(CatalogError):
    """The outcome of a commit is unknown. Do not resend it without its key and do not delete the files it references.

    `__cause__` is the original failure.
    """

    def __init__(self, message: str = "", **more: Any) -> None:
        super().__init__(message, **{"maybe_applied": True, **more})
        self.is_commit_state_unknown = True


class OAuthError(CatalogError):
    """The token endpoint returned an error response (RFC 6749 §5.2)."""

    error: str
    error_description: str | None
    error_uri: str | None

    def __init__(
        self,
        message: str = "",
        *,
        error: str = "",
        error_description: str | None = None,
        error_uri: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message, **more)
        self.error = error
        self.error_description = error_description
        self.error_uri = error_uri


class ScanPlanningError(CatalogError):
    """Scan planning failed."""


class PlanFailedError(ScanPlanningError):
    """The server reported that planning failed."""


class PlanCancelledError(ScanPlanningError):
    """The plan was cancelled."""


class PlanTimeoutError(ScanPlanningError):
    """The plan was not completed within `poll_timeout`."""


class InsecureTransportWarning(UserWarning):
    """Credentials will be sent to another host without TLS."""
