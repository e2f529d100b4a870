"""Base of the operations: options, life cycle, limits of calls and the server's configuration."""

from __future__ import annotations

import dataclasses
import functools
import threading
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack, cast

from catalogclient import _call_scope, _pagination, _redact, _routing, _urls
from catalogclient._call_scope import CallScope
from catalogclient._endpoints import OPERATIONS, Effect, Endpoint, Operation
from catalogclient._guards import convert_errors
from catalogclient._log import CONFIG, HTTP
from catalogclient._messages import UNSET, Call, HttpResponse, RawResponse, Unset, encode_json
from catalogclient._operations import parsing, request_parts
from catalogclient._options import (
    CALL_OPTIONS,
    CallOptions,
    LoadOptions,
    MutationOptions,
    RestCatalogOptions,
    Timeout,
    TimeoutLike,
    time_limit,
)
from catalogclient._pagination import Page
from catalogclient._results import CatalogConfig
from catalogclient._routing import Route
from catalogclient._runtime import Runtime
from catalogclient._sender import Sender
from catalogclient._single_flight import SingleFlight
from catalogclient._urls import PathValue, QueryValue
from catalogclient.auth._base import AuthManager
from catalogclient.auth._static import NoAuth
from catalogclient.errors import (
    CatalogError,
    ClientClosedError,
    InsecureTransportWarning,
    InvalidArgumentError,
    InvalidResponseError,
    UnsupportedEndpointError,
)

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])
_MAX_TOKEN_RESPONSE = 1_048_576


def operation(method: Method) -> Method:
    """Run a method as one call: with one deadline for all its requests, and with CatalogError as its only error."""

    code = method.__code__
    keywords = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *CALL_OPTIONS}
    if "load" in method.__annotations__:
        keywords |= LoadOptions.__annotations__.keys()

    @functools.wraps(method)
    def call(self: Core, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        # A wrong signature raises TypeError here and not inside the call.
        unknown = kwargs.keys() - keywords
        if unknown:
            raise TypeError(f"{method.__name__}() got an unexpected keyword argument {min(unknown)!r}")
        return self._within_limits(method(self, *args, **kwargs), kwargs.get("timeout", UNSET))

    return cast(Method, call)


class SharedState:
    """Configuration shared by a catalog and its siblings from `with_auth`."""

    def __init__(self) -> None:
        self.route: Route | None = None
        self.flight: SingleFlight[Route] = SingleFlight()
        self._users: set[object] = set()
        self._lock = threading.Lock()

    def join(self, user: object) -> None:
        with self._lock:
            self._users.add(user)

    def leave(self, user: object) -> bool:
        """Return True if `user` was the last user."""
        with self._lock:
            self._users.discard(user)
            return not self._users


class Core:
    """Sends calls, and requests the server's configuration before the first one."""

    def __init__(
        self,
        options: RestCatalogOptions,
        runtime: Runtime,
        *,
        auth: AuthManager,
        owns_auth: bool,
        shared: SharedState | None = None,
    ) -> None:
        self._options = options
        self._runtime = runtime
        self._shared = shared or SharedState()
        self._timeout = Timeout.parse(options.timeout)
        self._total_timeout = time_limit(options.total_timeout, "total_timeout")
        self._auth = auth
        self._owns_auth = owns_auth
        self._sender = Sender(options, runtime, self._auth)
        self._shared.join(self)
        self._auth.attach(dataclasses.replace(options, auth=None, session=None, max_response_bytes=_MAX_TOKEN_RESPONSE))
        root = _urls.root(options.base_url)
        if root.startswith("http://") and not _urls.is_loopback(root) and not isinstance(self._auth, NoAuth):
            warnings.warn("credentials are sent without TLS", InsecureTransportWarning, stacklevel=4)
        if root.endswith("/v1"):
            CONFIG.warning("base_url ends with /v1, but every request path begins with /v1 as well")
        if options.verify is False:
            HTTP.warning("TLS certificates are not verified")

    def _sibling(self, auth: AuthManager, *, owns_auth: bool) -> Self:
        self._check_open()
        sibling = type(self).__new__(type(self))
        Core.__init__(
            sibling, self._options, self._runtime.sibling(), auth=auth, owns_auth=owns_auth, shared=self._shared
        )
        return sibling

    async def aclose(self) -> None:
        """End delays between attempts and close connections. Later calls raise ClientClosedError."""
        self._runtime.close()
        if self._shared.leave(self):
            await self._runtime.close_transport()
        if self._owns_auth:
            await self._runtime.call(self._auth.close, may_block=self._auth.may_block())

    def __repr__(self) -> str:
        url = _redact.url_without_secrets(self._options.base_url)
        warehouse = _routing.warehouse(self._options)
        return f"{type(self).__name__}({url!r}, warehouse={warehouse!r}, auth={self._auth!r})"

    @operation
    async def load_config(self, *, refresh: bool = False, **call: Unpack[CallOptions]) -> CatalogConfig:
        """Return the server's configuration, which is requested once. `refresh` requests it again.

        Raises NoSuchWarehouseError and the errors of the request. A failed refresh keeps the known configuration.
        Source: OpenAPI, `getConfig`.
        """

        def get_known_route() -> Route | None:
            route = self._shared.route
            return route if route is not None and route.config is not None and not refresh else None

        self._check_open()
        route = await self._share(lambda: self._request_config(**call), unless=get_known_route)
        # The shared request of another call may have ended without a configuration.
        if route.config is None:
            route = await self._request_config(**call)
        if route.config is None:
            raise InvalidResponseError("the server has no configuration")
        return route.config

    @operation
    async def prefix(self) -> str:
        """Return the percent-encoded prefix of all paths, which follows `/v1/`. Empty if there is none."""
        return (await self._route()).prefix

    @operation
    async def supports(self, endpoint: Endpoint | str) -> bool:
        """Return True if the server lists an endpoint.

        For a server that lists no endpoints, the default set of the OpenAPI document applies. Requests the
        configuration if it is unknown, and raises as load_config does.
        """
        self._check_open()
        return str(endpoint) in (await self._share(self._negotiate, unless=lambda: self._shared.route)).supported

    @operation
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        mutation: bool | None = None,
        prefixed: bool = True,
        **call: Unpack[MutationOptions],
    ) -> RawResponse:
        """Send a request to an endpoint that this library has no method for.

        `path` is percent-encoded and follows `/v1/` and the prefix, or the base URL if `prefixed` is False. `mutation`
        means that the request must not be repeated without an idempotency key, and adds a key to POST and DELETE. The
        default is True for all methods except GET and HEAD. Raises the same errors as the other operations.
        """
        method = method.upper()
        cleaned = path.lstrip("/")
        if not _urls.is_sendable_path(cleaned):
            raise InvalidArgumentError("path must be percent-encoded and must not contain '.' or '..' as a segment")
        changes = method not in ("GET", "HEAD") if mutation is None else mutation
        custom = Operation(
            name="request",
            method=method,
            template=f"/v1/{{prefix}}/{cleaned}" if prefixed else f"/{cleaned}",
            effect=Effect.CHANGE if changes else Effect.NONE,
            keyed=changes and method in ("POST", "DELETE"),
            delegating=False,
        )
        prepared: Call[RawResponse] = Call(
            operation=custom,
            query=tuple((params or {}).items()),
            body=None if json is None else encode_json(json),
            read=parsing.raw,
        )
        return await self._send(prepared, None if prefixed else _routing.initial(self._options), **call)

    async def _within_limits(self, coroutine: Coroutine[Any, Any, T], limit: object) -> T:
        try:
            with convert_errors():
                limits = self._timeout if isinstance(limit, Unset) else Timeout.parse(cast(TimeoutLike, limit))
                with _call_scope.enter(limits, self._total_timeout, self._runtime.closed):
                    return await coroutine
        finally:
            coroutine.close()

    async def _send(self, prepared: Call[T], route: Route | None = None, /, **call: Unpack[MutationOptions]) -> T:
        self._check_open()
        route = route or await self._route()
        lacks = self._options.endpoint_check == "strict" and route.lacks(prepared.operation)
        if lacks and prepared.operation.name != "request":
            name = prepared.operation.name
            raise UnsupportedEndpointError(f"the server does not list {prepared.operation.endpoint}", operation=name)
        return await self._sender.send(
            prepared, route, _scope(), headers=call.get("headers"), idempotency_key=call.get("idempotency_key")
        )

    async def _call(
        self,
        endpoint: Endpoint,
        read: Callable[[HttpResponse], T],
        values: Mapping[str, PathValue] | None = None,
        /,
        *,
        query: tuple[tuple[str, QueryValue], ...] = (),
        page: tuple[int | None, str | None] = (None, None),
        body: object = None,
        access_delegation: Sequence[str] | Unset | None = UNSET,
        **call: Unpack[MutationOptions],
    ) -> T:
        """Send one request. `values` are the placeholders of the path. `page` is size and token. `body` is JSON."""
        prepared = Call(
            operation=OPERATIONS[endpoint],
            values=values or {},
            query=(*query, *request_parts.page_parameters(*page)),
            body=None if body is None else encode_json(body),
            access_delegation=access_delegation,
            read=read,
        )
        return await self._send(prepared, **call)

    def _items(
        self, fetch: Callable[..., Awaitable[Page[T]]], page_size: int | None, call: CallOptions
    ) -> AsyncGenerator[T, None]:
        """Iterate over all pages of a list. `fetch` takes the keywords page_size and page_token."""
        return _pagination.items(
            lambda size, token: fetch(page_size=size, page_token=token, **call),
            page_size=page_size,
            default_size=lambda: self._default_page_size(**call),
        )

    @operation
    async def _default_page_size(self, **_call: Unpack[CallOptions]) -> int | None:
        return (await self._route()).page_size

    async def _exists(
        self,
        endpoint: Endpoint,
        values: Mapping[str, PathValue],
        load: Callable[[], Awaitable[object]],
        **call: Unpack[CallOptions],
    ) -> bool:
        """Send a HEAD request, or call `load` if the server does not support it. Returns False for status 404."""
        head = Call(operation=OPERATIONS[endpoint], values=values, read=parsing.ignore_body)
        route = await self._route()
        try:
            if route.lacks(head.operation):
                await load()
                return True
            try:
                await self._send(head, route, **call)
            except CatalogError as error:
                if error.status not in (405, 501):
                    raise
                await load()
        except CatalogError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _check_open(self) -> None:
        if self._runtime.closed.is_set():
            raise ClientClosedError("the catalog is closed")

    async def _route(self) -> Route:
        self._check_open()
        route = self._shared.route
        if route is not None:
            return route
        if self._options.config_mode == "never":
            return _routing.without_config(self._options)
        return await self._share(self._negotiate, unless=lambda: self._shared.route)

    async def _share(
        self, fetch: Callable[[], Coroutine[Any, Any, Route]], *, unless: Callable[[], Route | None]
    ) -> Route:
        return await self._shared.flight.run_async(fetch, unless=unless, wait=self._runtime.wait)

    async def _negotiate(self) -> Route:
        try:
            return await self._request_config()
        except CatalogError as error:
            if not _routing.is_lacking(error, self._options):
                raise
            self._shared.route = route = _routing.without_config(self._options)
            return route

    async def _request_config(self, **call: Unpack[CallOptions]) -> Route:
        warehouse = _routing.warehouse(self._options)
        prepared = Call(
            operation=OPERATIONS[Endpoint.LOAD_CONFIG],
            query=(("warehouse", warehouse),) if warehouse is not None else (),
            read=parsing.config,
        )
        config = await self._sender.send(
            prepared, _routing.initial(self._options), _scope(), headers=call.get("headers")
        )
        with convert_errors("the configuration is invalid", InvalidResponseError, status=200):
            self._shared.route = route = _routing.from_config(self._options, config)
        return route


def _scope() -> CallScope:
    scope = _call_scope.current()
    if scope is None:
        raise RuntimeError("no call is running")
    return scope
