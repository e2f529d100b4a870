"""One call from its request to its result, with as many attempts as it may have."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from catalogclient import _error_mapping, _headers, _idempotency, _redact, _request_builder
from catalogclient._endpoints import Operation
from catalogclient._event_hooks import AttemptReporter
from catalogclient._log import AUTH
from catalogclient._messages import UNSET, Call, PreparedRequest, Reply, Unset
from catalogclient._options import RestCatalogOptions, Timeout, TimeoutLike
from catalogclient._retries import RetryState
from catalogclient._routing import Route
from catalogclient.auth._base import AuthManager
from catalogclient.errors import CatalogError, ClientClosedError, InvalidArgumentError, InvalidResponseError

if TYPE_CHECKING:
    from catalogclient._transport import Transport

T = TypeVar("T")


class Sender:
    """Sends the calls of one catalog. Holds nothing of a single call, and so serves any number of threads."""

    def __init__(self, options: RestCatalogOptions, transport: Transport, auth: AuthManager) -> None:
        self._options = options
        self._transport = transport
        self._auth = auth
        self._timeout = Timeout.parse(options.timeout)
        self._basic = _headers.basic(user_agent=options.user_agent, transport=transport.name)
        self._closed = threading.Event()

    def close(self) -> None:
        """End pauses between attempts; no call begins any more."""
        self._closed.set()

    def check_open(self) -> None:
        if self._closed.is_set():
            raise ClientClosedError("the catalog is closed")

    def pause(self, seconds: float) -> None:
        """Wait. Raises ClientClosedError when another thread closes the catalog meanwhile."""
        if self._closed.wait(seconds):
            raise ClientClosedError("the catalog was closed")

    def perform(
        self,
        call: Call[T],
        route: Route,
        /,
        *,
        timeout: TimeoutLike | Unset = UNSET,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """The result of `call`, sent along `route`. Raises CatalogError."""
        self.check_open()
        began_at = time.monotonic()
        total = self._options.total_timeout
        attempts = RetryState(
            operation=call.operation,
            policy=self._options.retry,
            key=_key(call.operation, idempotency_key),
            key_lifetime=route.idempotency_key_lifetime,
            started_at=began_at,
            deadline=None if total is None else began_at + total,
        )
        extra = self._extra_headers(headers)
        limits = self._timeout if isinstance(timeout, Unset) else Timeout.parse(timeout)
        while True:
            attempts.begin_attempt(now=time.monotonic())
            request = _request_builder.build_request(
                call,
                route,
                basic=self._basic,
                extra=extra,
                key=attempts.key,
                access_delegation=self._options.access_delegation,
            )
            try:
                self._authenticate(request)
            except CatalogError as unsigned:
                # It says nothing of this request, but an earlier attempt may have been lost.
                outcome = attempts.final(unsigned, before_sending=True)
                if outcome is unsigned:
                    raise
                raise outcome from unsigned
            reporter = AttemptReporter(self._options.hooks, call.operation, request, attempts.number)
            try:
                reply = self._transport.exchange(request, timeout=limits, deadline=attempts.deadline)
            except CatalogError as failure:
                error = failure
                reporter.ended(error.status, error=error)
            else:
                reporter.ended(reply.status, request_id=_error_mapping.request_id(reply))
                refused = _refusal(call, reply)
                if refused is None:
                    return _read(call, reply, request, attempts)
                error = refused
            _locate(error, request, call.operation)
            if attempts.should_refresh_credentials(error) and self._refresh(error):
                attempts.credentials_refreshed()
                continue
            delay = attempts.next_delay(error, now=time.monotonic())
            reporter.retrying(delay, error)
            try:
                self.pause(delay)
            except ClientClosedError as closed:
                raise attempts.final(closed) from error

    def _extra_headers(self, given: Mapping[str, str] | None) -> Mapping[str, str]:
        if not given:
            return self._options.headers
        _headers.check(given)
        return _headers.merged(self._options.headers, given)

    def _authenticate(self, request: PreparedRequest) -> None:
        try:
            self._auth.apply(request)
        except CatalogError:
            raise
        except Exception as error:
            raise CatalogError(f"the authentication failed: {type(error).__name__}") from error
        for name, value in request.headers.items():
            _headers.check_name(name)
            _headers.check_value(value)

    def _refresh(self, error: CatalogError) -> bool:
        try:
            return self._auth.refresh(reason=error.status)
        except Exception as failure:  # noqa: BLE001  (whatever it was, the server's refusal is what the caller must see)
            AUTH.warning("credentials could not be renewed: %s", type(failure).__name__)
            error.__cause__ = failure
            return False


def _key(operation: Operation, given: str | None) -> str | None:
    if given is not None and not operation.keyed:
        raise InvalidArgumentError(f"{operation.name} takes no idempotency key")
    if given is not None:
        return _idempotency.validate(given)
    return _idempotency.generate_idempotency_key() if operation.keyed else None


def _refusal(call: Call[T], reply: Reply) -> CatalogError | None:
    if reply.status >= 400:
        return _error_mapping.error_from_reply(reply, call.operation)
    if reply.status == 304 and "If-None-Match" not in call.headers:
        return InvalidResponseError("the server says that nothing has changed, and was not asked", status=304)
    return None


def _read(call: Call[T], reply: Reply, request: PreparedRequest, attempts: RetryState) -> T:
    try:
        return call.read(reply)
    except CatalogError as error:
        error.status = error.status or reply.status
        _locate(error, request, call.operation)
        # It stays what it is: an answer of success that says too little.
        attempts.final(error)
        raise


def _locate(error: CatalogError, request: PreparedRequest, operation: Operation) -> None:
    if error.operation is None:
        error.method = request.method
        error.url = _redact.url_without_secrets(request.url)
        error.operation = operation.name
