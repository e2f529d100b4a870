"""Sends prepared requests with `httpx` and waits with asyncio."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import certifi
import httpx

from catalogclient import _call_scope, _headers, _http
from catalogclient._messages import HttpResponse, PreparedRequest
from catalogclient._options import RestCatalogOptions, Timeout
from catalogclient._transport import ConnectionSettings, Environment
from catalogclient.errors import CatalogError, ClientClosedError, InvalidArgumentError, RequestTimeoutError

T = TypeVar("T")
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Context for plain connections, so that none is created for each of them."""


class AsyncTransport:
    """Pool of connections for one event loop."""

    name = f"httpx/{httpx.__version__}"

    def __init__(self, options: RestCatalogOptions) -> None:
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        # Transports of one connection each, because a request to a large httpx pool checks all of its connections.
        self._idle: dict[tuple[str | None, bool], list[httpx.AsyncHTTPTransport]] = {}
        self._environment = Environment(options)
        self._tls: ssl.SSLContext | None = None

    async def exchange(self, request: PreparedRequest, limits: Timeout, deadline: float | None) -> HttpResponse:
        """Send `request` once and read the whole response. Redirects are not followed.

        Raises NetworkError if no complete response was received, InvalidResponseError if it exceeds
        `max_response_bytes`, and UnexpectedRedirectError for a redirect. Cancellation closes the connection.
        """
        # Only a change needs to know if it was sent: a failed read is repeated in both cases.
        is_change = request.method not in ("GET", "HEAD")
        sent = not is_change

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal sent
            # The CONNECT request to a proxy is not part of the request.
            if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
                sent = True

        try:
            async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
                return await self._exchange(request, limits, {"trace": trace} if is_change else {})
        except (CatalogError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, httpx.HTTPError):
                # The request holds the credentials.
                error._request = None
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
                sent = False
            if not isinstance(error, OSError | httpx.HTTPError) and not (is_change and sent):
                raise InvalidArgumentError(f"the request cannot be sent: {type(error).__name__}") from error
            raise _http.network_error(error, sent=sent, deadline=deadline, is_timeout=_is_timeout) from error

    async def close(self) -> None:
        idle, self._idle = self._idle, {}
        if self._loop is asyncio.get_running_loop():
            for transports in idle.values():
                for transport in transports:
                    await transport.aclose()

    async def _exchange(self, request: PreparedRequest, limits: Timeout, extensions: dict[str, Any]) -> HttpResponse:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Connections belong to the event loop that opened them.
            self._loop, self._idle = loop, {}
        settings = self._environment.settings(request.url)
        key = settings.proxy, request.url.startswith("https")
        idle = self._idle.setdefault(key, [])
        transport = idle.pop() if idle else self._transport(request.url, settings)
        try:
            return await self._send(transport, request, limits, extensions, settings.proxy)
        finally:
            # `close` and another event loop replace the list.
            if self._idle.get(key) is idle and len(idle) < self._options.pool_maxsize:
                idle.append(transport)
            else:
                await transport.aclose()

    async def _send(
        self,
        transport: httpx.AsyncHTTPTransport,
        request: PreparedRequest,
        limits: Timeout,
        extensions: dict[str, Any],
        proxy: str | None,
    ) -> HttpResponse:
        parts = urlsplit(request.url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        # A proxy for http requires the absolute form (RFC 9112 §3.2.2).
        target = request.url if proxy is not None and parts.scheme == "http" else path
        timeout = {"connect": limits.connect, "read": limits.read, "write": limits.read, "pool": None}
        # A manager may have set a field in another spelling. The last one counts, as with `requests`.
        headers = _headers.merge(request.headers)
        if request.body is None and request.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = "0"
        response = await transport.handle_async_request(
            httpx.Request(
                request.method,
                f"{parts.scheme}://{parts.netloc}/",
                headers=headers,
                content=request.body,
                # The target is sent unchanged: httpx would rewrite percent-encoded characters.
                extensions={**extensions, "timeout": timeout, "target": target.encode("ascii")},
            )
        )
        try:
            status = response.status_code
            _http.check_redirect(status, response.headers.get("Location"))
            body = _http.Body(
                status=status,
                encoding=response.headers.get("Content-Encoding"),
                limit=self._options.max_response_bytes,
            )
            async for chunk in response.aiter_raw():
                if not body.append(chunk):
                    break
            return HttpResponse(status, response.headers, body.finish())
        finally:
            await response.aclose()

    def _transport(self, url: str, settings: ConnectionSettings) -> httpx.AsyncHTTPTransport:
        needs_tls = url.startswith("https") or (settings.proxy or "").startswith("https")
        return httpx.AsyncHTTPTransport(
            verify=self._tls_context(settings) if needs_tls else _NO_TLS,
            trust_env=False,
            proxy=settings.proxy,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
        )

    def _tls_context(self, settings: ConnectionSettings) -> ssl.SSLContext:
        if self._tls is None:
            path = certifi.where() if isinstance(settings.verify, bool) else settings.verify
            is_folder = Path(path).is_dir()
            context = ssl.create_default_context(cafile=None if is_folder else path, capath=path if is_folder else None)
            if settings.verify is False:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            cert = settings.cert
            if cert is not None:
                context.load_cert_chain(*((cert,) if isinstance(cert, str) else cert))
            self._tls = context
        return self._tls


class AsyncioRuntime:
    """Waits with asyncio. Authentication managers that may block run in worker threads."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.name = transport.name
        self.closed = threading.Event()
        self._transport = transport
        self._sleepers: set[asyncio.Future[None]] = set()

    async def exchange(self, request: PreparedRequest, limits: Timeout, deadline: float | None) -> HttpResponse:
        return await self._transport.exchange(request, limits, deadline)

    async def sleep(self, seconds: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            if not self.closed.is_set():
                await asyncio.wait_for(sleeper, seconds)
        except TimeoutError:
            return
        finally:
            self._sleepers.discard(sleeper)
        raise ClientClosedError("the catalog was closed")

    async def call(self, function: Callable[[], T], *, may_block: bool) -> T:
        return await asyncio.to_thread(function) if may_block else function()

    async def wait(self, flight: Future[T]) -> T:
        scope = _call_scope.current()
        waiter = asyncio.wrap_future(flight)
        # An error after the end of this wait belongs to the other callers.
        waiter.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(waiter), scope.remaining() if scope else None)
        except TimeoutError as error:
            if isinstance(error, RequestTimeoutError):
                raise
            raise RequestTimeoutError("Network request failed: deadline exceeded", phase="total") from None

    def sibling(self) -> AsyncioRuntime:
        return AsyncioRuntime(self._transport)

    def close(self) -> None:
        self.closed.set()
        for sleeper in list(self._sleepers):
            sleeper.get_loop().call_soon_threadsafe(_wake, sleeper)

    async def close_transport(self) -> None:
        await self._transport.close()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, TimeoutError | httpx.TimeoutException)
