"""Every failure of the library, as one tree under `CatalogError`.

CatalogError
├─ InvalidArgumentError · ClientClosedError · UnsupportedEndpointError      nothing was sent
├─ NetworkError: ConnectError · TlsError · RequestTimeoutError              no answer came
├─ InvalidResponseError · UnexpectedRedirectError                           an answer that cannot be used
├─ ResponseError                                                            the server refused
│   ├─ BadRequestError · UnprocessableEntityError · TooManyRequestsError
│   ├─ UnauthorizedError: AuthenticationTimeoutError
│   ├─ ForbiddenError · UnsupportedOperationError
│   ├─ NotFoundError: NoSuch{Warehouse,Namespace,Table,View,Function,PlanId,PlanTask}Error
│   ├─ ConflictError: AlreadyExistsError · NamespaceNotEmptyError · CommitFailedError
│   └─ ServerError: ServiceUnavailableError
├─ CommitStateUnknownError                                                  a commit may have been applied
├─ OAuthError                                                               the token endpoint refused
└─ ScanPlanningError: PlanFailedError · PlanCancelledError · PlanTimeoutError
"""

from __future__ import annotations

from typing import Any, Literal

from catalogclient import _redact


class CatalogError(Exception):
    """Any failure of this library. Its text is the message of the server where there is one, and never a secret."""

    message: str
    status: int
    """Of HTTP; 0 when there was no answer."""
    type: str | None
    """The server's word for the error, for example `NoSuchTableException`."""
    code: int | None
    """The number in the body, which may differ from `status`."""
    stack: list[str]
    """Lines of the server's stack trace, for debugging servers."""
    details: Any
    """The parsed body of the error, or up to 2,000 characters of its text; of a network failure its cause."""
    method: str | None
    url: str | None
    """Without the query."""
    operation: str | None
    """Name of the method of RestCatalog."""
    request_id: str | None
    retry_after: float | None
    """Seconds the server asks to wait."""
    attempts: int
    """How often the request was sent, or was tried to be."""
    idempotency_key: str | None
    maybe_applied: bool
    """The change may have taken effect although the call failed."""
    is_commit_state_unknown: bool

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
        """Whether the same request, had it no effects, might succeed when sent again."""
        return self.status in (408, 429, 500, 502, 503, 504)

    def __str__(self) -> str:
        kind = " ".join(part for part in (f"HTTP {self.status}" if self.status else "", self.type or "") if part)
        where = ", ".join(part for part in (kind, self.operation or "") if part)
        text = _redact.one_line(self.message)
        return f"{text} [{_redact.one_line(where)}]" if where else text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The cause of a network failure may hold a socket, and `details` whatever the server repeated of the request.
        state = {**vars(self), "details": None}
        return _restored, (type(self), self.message, state)


def _restored(kind: type[CatalogError], message: str, state: dict[str, Any]) -> CatalogError:
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    vars(error).update(state)
    return error


class InvalidArgumentError(CatalogError, ValueError):
    """An argument or option cannot be used; nothing was sent."""


class ClientClosedError(CatalogError):
    """The catalog was closed."""


class UnsupportedEndpointError(CatalogError):
    """The server does not list the endpoint, and `endpoint_check="strict"` forbids asking."""


class NetworkError(CatalogError):
    """No answer came, or half of one."""

    sent = False
    """Whether the request may have reached the server."""

    @property
    def is_retryable(self) -> bool:
        return not isinstance(self, TlsError)


class ConnectError(NetworkError):
    """No connection was made: the name is unknown, the host refuses or cannot be reached. Nothing was sent."""


class TlsError(NetworkError):
    """No secure connection was made. Nothing was sent."""


class RequestTimeoutError(NetworkError, TimeoutError):
    """It took too long: to connect, until the next bytes (`read`), or the call as a whole (`total`)."""

    phase: Literal["connect", "read", "total"]

    def __init__(self, message: str = "", *, phase: Literal["connect", "read", "total"] = "read", **more: Any) -> None:
        super().__init__(message, **more)
        self.phase = phase


class InvalidResponseError(CatalogError):
    """The answer is not what the interface promises."""


class UnexpectedRedirectError(CatalogError):
    """The server redirects; no redirect is ever followed, since credentials would travel along."""

    location: str | None

    def __init__(self, message: str = "", *, location: str | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.location = location


class ResponseError(CatalogError):
    """The server refused, or failed: status 400 or above."""


class BadRequestError(ResponseError):
    """400."""


class UnprocessableEntityError(ResponseError):
    """422."""


class TooManyRequestsError(ResponseError):
    """429."""


class UnauthorizedError(ResponseError):
    """401."""


class AuthenticationTimeoutError(UnauthorizedError):
    """419: the credentials have expired."""


class ForbiddenError(ResponseError):
    """403."""


class UnsupportedOperationError(ResponseError):
    """405, 406 or 501."""


class NotFoundError(ResponseError):
    """404."""


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
    """The scan plan does not exist, or no longer."""


class NoSuchPlanTaskError(NotFoundError):
    """The plan task does not exist, or no longer."""


class ConflictError(ResponseError):
    """409."""


class AlreadyExistsError(ConflictError):
    """Something of that name exists."""


class NamespaceNotEmptyError(ConflictError):
    """A namespace with content is not dropped; some servers say so with status 400."""


class CommitFailedError(ConflictError):
    """A requirement does not hold: somebody else was faster. Nothing was changed."""


class ServerError(ResponseError):
    """500 or above."""


class ServiceUnavailableError(ServerError):
    """503."""


class CommitStateUnknownError(CatalogError):
    """A commit may have been applied or not; neither send it again blindly nor delete the files it names.

    `__cause__` is the failure itself.
    """

    def __init__(self, message: str = "", **more: Any) -> None:
        super().__init__(message, **{"maybe_applied": True, **more})
        self.is_commit_state_unknown = True


class OAuthError(CatalogError):
    """The token endpoint refused (RFC 6749 §5.2)."""

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
    """A scan was not planned."""


class PlanFailedError(ScanPlanningError):
    """The server could not plan the scan."""


class PlanCancelledError(ScanPlanningError):
    """The plan was cancelled."""


class PlanTimeoutError(ScanPlanningError):
    """The plan was not ready in time."""


class InsecureTransportWarning(UserWarning):
    """Credentials are about to travel without TLS to another host."""
