"""The part of RestCatalog that is no operation: options, lifecycle, the server's configuration."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn, Self, TypedDict, TypeVar, Unpack

from catalogclient import _encoding, _redact, _routing, _urls
from catalogclient._catalog.sending import Sender
from catalogclient._endpoints import Effect, Endpoint, Operation
from catalogclient._log import CONFIG, HTTP
from catalogclient._messages import Call, RawResponse
from catalogclient._operations import configuration
from catalogclient._options import RestCatalogOptions, TimeoutLike
from catalogclient._results import CatalogConfig
from catalogclient._routing import Route
from catalogclient._sharing import Shared
from catalogclient.auth import _config
from catalogclient.auth._base import AuthManager
from catalogclient.auth._config import AuthConfig
from catalogclient.auth._static import NoAuth
from catalogclient.errors import (
    CatalogError,
    InsecureTransportWarning,
    InvalidArgumentError,
    UnsupportedEndpointError,
)

T = TypeVar("T")
_LONGEST_TOKEN_ANSWER = 1_048_576


class CallOptions(TypedDict, total=False):
    """What every call takes beside its own arguments."""

    timeout: TimeoutLike
    """Instead of that of the options."""
    headers: Mapping[str, str]
    """In addition to those of the options."""


class MutationOptions(CallOptions, total=False):
    """What every call that changes something takes besides."""

    idempotency_key: str | None
    """A UUID, to send a change again that was sent before; a new one is made otherwise."""


class Core:
    """What the operations stand on."""

    _options: RestCatalogOptions
    _shared: Shared
    _sender: Sender
    _auth: AuthManager
    _owns_auth: bool

    def _begin(self, options: RestCatalogOptions, shared: Shared, auth: AuthConfig | AuthManager | None) -> None:
        self._options = options
        self._shared = shared
        self._auth = _config.create_manager(auth)
        self._owns_auth = not isinstance(auth, AuthManager)
        self._sender = Sender(options, shared.transport, self._auth)
        shared.join(self._sender)
        self._auth.attach(
            dataclasses.replace(options, auth=None, session=None, max_response_bytes=_LONGEST_TOKEN_ANSWER)
        )
        root = _urls.root(options.base_url)
        if root.startswith("http://") and not _urls.is_loopback(root) and not isinstance(self._auth, NoAuth):
            warnings.warn("credentials travel without TLS", InsecureTransportWarning, stacklevel=3)
        if root.endswith("/v1"):
            CONFIG.warning("base_url ends with /v1, and every path begins with /v1 again")
        if options.verify is False:
            HTTP.warning("certificates are not checked")

    def with_auth(self, auth: AuthConfig | AuthManager) -> Self:
        """A sibling with other credentials. It shares connections and configuration, and is closed on its own."""
        self._sender.check_open()
        sibling = type(self).__new__(type(self))
        sibling._begin(self._options, self._shared, auth)
        return sibling

    def close(self) -> None:
        """End pauses between attempts and let go of connections; later calls raise ClientClosedError."""
        self._sender.close()
        self._shared.leave(self._sender)
        if self._owns_auth:
            self._auth.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        shown = _redact.url_without_secrets(self._options.base_url)
        return f"{type(self).__name__}({shown!r}, warehouse={_routing.warehouse(self._options)!r}, auth={self._auth!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a catalog holds credentials and connections, and is neither copied nor pickled")

    def load_config(self, *, refresh: bool = False, **call: Unpack[CallOptions]) -> CatalogConfig:
        """The server's configuration, asked for once; `refresh` asks again. Source: OpenAPI, `getConfig`.

        Raises NoSuchWarehouseError, or what else the request fails with; what was known before stays.
        """

        def known() -> Route | None:
            route = self._shared.route
            return route if route is not None and route.config is not None and not refresh else None

        self._sender.check_open()
        found = self._shared.flight.run(lambda: self._ask(**call), unless=known)
        # The flight of another thread may have ended with the finding that there is no configuration.
        settled = found.config or self._ask(**call).config
        if settled is None:
            raise CatalogError("the server has no configuration")
        return settled

    def prefix(self) -> str:
        """What stands between `/v1/` and the operation in every path, as it is sent; empty when there is nothing."""
        return self._route().prefix

    def supports(self, endpoint: Endpoint | str) -> bool:
        """Whether the server lists an endpoint; for one that lists none the OpenAPI document's minimum is assumed.

        Asks for the configuration when it is not known yet, and raises as load_config does.
        """
        self._sender.check_open()
        route = self._shared.flight.run(self._negotiate, unless=lambda: self._shared.route)
        return str(endpoint) in route.supported

    def request(
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
        """Send a request that this library does not know, with the same care.

        `path` follows `/v1/` and the prefix, or with `prefixed=False` the catalog's address, and is sent as it is.
        `mutation` says that it must not be repeated blindly, and adds an idempotency key to POST and DELETE; without
        it everything but GET and HEAD is one. Raises as the operations do.
        """
        cleaned = path.lstrip("/")
        if not _urls.is_sendable_path(cleaned):
            raise InvalidArgumentError("path must be percent-encoded and free of '.' and '..'")
        changes = method not in ("GET", "HEAD") if mutation is None else mutation
        operation = Operation(
            name="request",
            method=method,
            template=f"/v1/{{prefix}}/{cleaned}" if prefixed else f"/{cleaned}",
            effect=Effect.CHANGE if changes else Effect.NONE,
            keyed=changes and method in ("POST", "DELETE"),
            delegating=False,
        )
        wanted: Call[RawResponse] = Call(
            operation=operation,
            query=tuple((params or {}).items()),
            body=None if json is None else _encoding.body(json),
            read=lambda reply: RawResponse(reply.status, reply.headers, reply.content),
        )
        return self._sender.perform(wanted, self._route() if prefixed else _routing.initial(self._options), **call)

    def _send(self, wanted: Call[T], /, **call: Unpack[MutationOptions]) -> T:
        route = self._route()
        operation = wanted.operation
        if self._options.endpoint_check == "strict" and route.lacks(operation):
            raise UnsupportedEndpointError(f"the server does not list {operation.listed}", operation=operation.name)
        return self._sender.perform(wanted, route, **call)

    def _exists(self, asked: Call[Any], instead: Call[Any], /, **call: Unpack[CallOptions]) -> bool:
        """Whether something is there: by HEAD, or by GET where the server knows no HEAD."""
        route = self._route()
        try:
            if route.lacks(asked.operation):
                self._sender.perform(instead, route, **call)
                return True
            try:
                self._sender.perform(asked, route, **call)
            except CatalogError as error:
                if error.status not in (405, 501):
                    raise
                self._sender.perform(instead, route, **call)
        except CatalogError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _route(self) -> Route:
        self._sender.check_open()
        route = self._shared.route
        if route is not None:
            return route
        if not _routing.needs_config(self._options):
            return _routing.without_config(self._options)
        return self._shared.flight.run(self._negotiate, unless=lambda: self._shared.route)

    def _negotiate(self) -> Route:
        try:
            return self._ask()
        except CatalogError as error:
            if not _routing.is_lacking(error, self._options):
                raise
            self._shared.route = found = _routing.without_config(self._options)
            return found

    def _ask(self, **call: Unpack[CallOptions]) -> Route:
        wanted = configuration.load(_routing.warehouse(self._options))
        answer = self._sender.perform(wanted, _routing.initial(self._options), **call)
        self._shared.route = found = _routing.from_config(self._options, answer)
        return found
