"""Builds the request of a call, sends it with retries and returns the result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from catalogclient import _error_mapping, _headers, _idempotency, _redact, _urls
from catalogclient._call_scope import CallScope
from catalogclient._endpoints import Operation
from catalogclient._event_hooks import AttemptReporter
from catalogclient._guards import convert_errors
from catalogclient._log import AUTH
from catalogclient._messages import Call, HttpResponse, PreparedRequest, Unset
from catalogclient._options import RestCatalogOptions
from catalogclient._retries import RetryState
from catalogclient._routing import Route
from catalogclient._runtime import Runtime
from catalogclient.auth._base import AuthManager
from catalogclient.errors import CatalogError, ClientClosedError, InvalidArgumentError, InvalidResponseError

T = TypeVar("T")


class Sender:
    """Sends the calls of one catalog. It has no state of single calls, so any number of threads may use it."""

    def __init__(self, options: RestCatalogOptions, runtime: Runtime, auth: AuthManager) -> None:
        self._options = options
        self._runtime = runtime
        self._auth = auth
        self._basic_headers: Mapping[str, str] = {}

    async def send(
        self,
        call: Call[T],
        route: Route,
        scope: CallScope,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> T:
        """Send `call` along `route` within the limits of `scope`. Raises CatalogError."""
        retries = RetryState(
            operation=call.operation,
            policy=self._options.retry,
            key=_key(call.operation, idempotency_key),
            key_lifetime=route.idempotency_key_lifetime,
            started_at=time.monotonic(),
            deadline=scope.deadline,
        )
        if not self._basic_headers:
            self._basic_headers = _headers.basic(user_agent=self._options.user_agent, transport=self._runtime.name)
        with convert_errors("the request cannot be built"):
            template = _request(
                call,
                route,
                basic=self._basic_headers,
                extra=self._extra_headers(headers),
                key=retries.key,
                access_delegation=self._options.access_delegation,
            )
        while True:
            retries.begin_attempt(now=time.monotonic())
            request = PreparedRequest(template.method, template.url, dict(template.headers), template.body)
            try:
                await self._authenticate(request)
            except CatalogError as failure:
                # The failure says nothing about this request, but an earlier attempt may have been applied.
                error = retries.final(failure, before_sending=True)
                if error is failure:
                    raise
                raise error from failure
            reporter = AttemptReporter(self._options.hooks, call.operation, request, retries.number)
            try:
                response = await self._runtime.exchange(request, scope.timeout, scope.deadline)
            except CatalogError as failure:
                reporter.report_end(failure.status, error=failure)
                error = failure
            else:
                reporter.report_end(response.status, request_id=_error_mapping.request_id(response))
                rejection = _rejection(call, response)
                if rejection is None:
                    return _parse(call, response, request, retries)
                error = rejection
            _add_location(error, request, call.operation)
            if retries.should_refresh_credentials(error) and await self._refresh_credentials(error):
                retries.credentials_refreshed()
                continue
            delay = retries.next_delay(error, now=time.monotonic())
            reporter.report_retry(delay, error)
            try:
                await self._runtime.sleep(delay)
            except ClientClosedError as closed:
                raise retries.final(closed) from error

    def _extra_headers(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        if not headers:
            return self._options.headers
        _headers.check(headers)
        return _headers.merge(self._options.headers, headers)

    async def _authenticate(self, request: PreparedRequest) -> None:
        with convert_errors("authentication failed", CatalogError):
            await self._runtime.call(lambda: self._auth.apply(request), may_block=self._auth.may_block())
            for name, value in request.headers.items():
                _headers.check_name(name)
                _headers.check_value(value)

    async def _refresh_credentials(self, error: CatalogError) -> bool:
        try:
            return await self._runtime.call(lambda: self._auth.refresh(reason=error.status), may_block=True)
        except Exception as failure:  # noqa: BLE001  (the caller gets the server's error)
            AUTH.warning("refreshing the credentials failed: %s", type(failure).__name__)
            error.__cause__ = failure
            return False


def _request(
    call: Call[Any],
    route: Route,
    *,
    basic: Mapping[str, str],
    extra: Mapping[str, str],
    key: str | None,
    access_delegation: Sequence[str] | None,
) -> PreparedRequest:
    """Build a request. `basic` are default fields, `extra` the caller's fields.

    `access_delegation` is the default from the options.
    """
    path = _urls.path(call.operation.template, call.values, prefix=route.prefix, separator=route.separator)
    defaults = (("snapshots", route.snapshots),) if call.wants_default_snapshots and route.snapshots else ()
    query = _urls.query((*defaults, *call.query), separator=route.separator)
    protocol = dict(call.headers)
    if call.body is not None:
        protocol["Content-Type"] = "application/json"
    if key is not None:
        protocol["Idempotency-Key"] = key
    if call.operation.delegating:
        values = access_delegation if isinstance(call.access_delegation, Unset) else call.access_delegation
        if values:
            protocol["X-Iceberg-Access-Delegation"] = _delegation(values)
    return PreparedRequest(
        call.operation.method,
        f"{route.root}{path}{query}",
        _headers.merge(basic, route.headers, extra, protocol),
        call.body,
    )


def _delegation(values: Sequence[str]) -> str:
    if isinstance(values, str):
        raise InvalidArgumentError("access_delegation must be a sequence of strings")
    value = ",".join(values)
    _headers.check_value(value)
    return value


def _key(operation: Operation, key: str | None) -> str | None:
    if key is not None and not operation.keyed:
        raise InvalidArgumentError(f"{operation.name} does not accept an idempotency key")
    if key is not None:
        return _idempotency.validate(key)
    return _idempotency.generate_idempotency_key() if operation.keyed else None


def _rejection(call: Call[T], response: HttpResponse) -> CatalogError | None:
    """Return the error of a response that is not a success, or None."""
    try:
        if response.status >= 400:
            with convert_errors("the error response is invalid", InvalidResponseError, status=response.status):
                return _error_mapping.error_from_response(response, call.operation)
    except InvalidResponseError as error:
        return error
    if response.status < 200:
        return InvalidResponseError(f"the final response has status {response.status}", status=response.status)
    if response.status == 304 and "If-None-Match" not in call.headers:
        return InvalidResponseError("the server returned 304 to an unconditional request", status=304)
    return None


def _parse(call: Call[T], response: HttpResponse, request: PreparedRequest, retries: RetryState) -> T:
    try:
        with convert_errors("the response is invalid", InvalidResponseError, status=response.status):
            return call.read(response)
    except CatalogError as error:
        error.status = error.status or response.status
        _add_location(error, request, call.operation)
        # Sets `maybe_applied`. A success status keeps the class of the error.
        retries.final(error)
        raise


def _add_location(error: CatalogError, request: PreparedRequest, operation: Operation) -> None:
    if error.operation is None:
        error.method = request.method
        error.url = _redact.url_without_secrets(request.url)
        error.operation = operation.name
