"""Sends prepared requests over HTTP with `requests`. Enforces timeouts and the size limit."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import select_proxy

from catalogclient import _connections, _http, _redact, _urls
from catalogclient._messages import HttpResponse, PreparedRequest
from catalogclient._options import RestCatalogOptions, Timeout, check_file
from catalogclient.errors import CatalogError, InvalidArgumentError

_CHUNK_SIZE = 262_144
_NOT_CONNECTED = (
    requests.exceptions.ConnectTimeout,
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    ssl.SSLCertVerificationError,
)


class Transport:
    """Pool of connections. Any number of threads may use it."""

    name: str = f"requests/{requests.__version__}"
    """Name and version of the HTTP library for the User-Agent header."""

    def __init__(self, options: RestCatalogOptions) -> None:
        self._options = options
        self._environment = Environment(options)
        self._open()

    def exchange(self, request: PreparedRequest, *, timeout: Timeout, deadline: float | None) -> HttpResponse:
        """Send `request` once and read the whole response. Redirects are not followed.

        `deadline` is a time of the monotonic clock. Raises NetworkError if no complete response was received,
        InvalidResponseError if it exceeds `max_response_bytes`, and UnexpectedRedirectError for a redirect.
        """
        if self._process != os.getpid():
            # After a fork the child must not use the connections of the parent.
            self._open()
        exchange = _connections.Exchange(read=timeout.read, deadline=deadline)
        try:
            return self._exchange(request, exchange, timeout)
        except (CatalogError, MemoryError):
            raise
        except Exception as error:
            raise _failure(error, exchange) from error

    def close(self) -> None:
        if self._options.session is None:
            self._session.close()

    def _open(self) -> None:
        self._process = os.getpid()
        self._session = self._options.session or _session(self._options)

    def _exchange(self, request: PreparedRequest, exchange: _connections.Exchange, timeout: Timeout) -> HttpResponse:
        adapter = self._session.get_adapter(request.url)
        _connections.begin(exchange)
        exchange.sent = False if isinstance(adapter, _Adapter) else None
        settings = self._environment.settings(request.url)
        response = adapter.send(
            _prepare(request),
            stream=True,
            # None is no limit, which the stubs of requests do not permit.
            timeout=(exchange.remaining(timeout.connect), exchange.remaining(timeout.read)),  # type: ignore[arg-type]
            verify=settings.verify,
            cert=settings.cert,
            proxies={"all": settings.proxy} if settings.proxy else {},
        )
        exchange.sent = True
        try:
            status = response.status_code
            _http.check_redirect(status, response.headers.get("Location"))
            body = _http.Body(
                status=status,
                encoding=response.headers.get("Content-Encoding"),
                limit=self._options.max_response_bytes,
            )
            while chunk := response.raw.read(_CHUNK_SIZE, decode_content=False):
                if not body.append(chunk):
                    break
            return HttpResponse(status, response.headers, body.finish())
        finally:
            response.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Proxy, CA bundle and client certificate for requests to one origin."""

    proxy: str | None
    verify: bool | str
    cert: str | tuple[str, str] | None


class Environment:
    """Reads the settings from the options and environment variables, once per origin because the look-up is slow."""

    def __init__(self, options: RestCatalogOptions) -> None:
        self._options = options
        self._known: dict[tuple[str, str, int], ConnectionSettings] = {}

    def settings(self, url: str) -> ConnectionSettings:
        """Return the settings for a URL. Raises InvalidArgumentError if the CA bundle does not exist."""
        origin = _urls.origin(url)
        known = self._known.get(origin)
        if known is None:
            known = self._known[origin] = self._look_up(url)
        return known

    def _look_up(self, url: str) -> ConnectionSettings:
        options = self._options
        session = requests.Session()
        session.trust_env = options.trust_env
        merged: dict[str, Any] = {
            **session.merge_environment_settings(
                _redact.url_without_secrets(url), dict(options.proxies or {}), None, options.verify, options.cert
            )
        }
        if isinstance(merged["verify"], str):
            check_file(merged["verify"], "the CA bundle")
        proxy = select_proxy(url, merged["proxies"]) or None
        if proxy and "://" not in proxy:
            proxy = f"http://{proxy}"
        return ConnectionSettings(proxy=proxy, verify=merged["verify"], cert=merged["cert"])


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _connections.POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _connections.POOLS
        return manager


def _session(options: RestCatalogOptions) -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(pool_maxsize=options.pool_maxsize, max_retries=0))
    return session


def _prepare(request: PreparedRequest) -> requests.PreparedRequest:
    """Build the request without `prepare()`, which would decode `%2E` in the URL and read `.netrc`."""
    prepared = requests.PreparedRequest()
    prepared.method = request.method
    prepared.url = request.url
    prepared.headers = CaseInsensitiveDict(request.headers)
    prepared.body = request.body
    if request.body is not None:
        prepared.headers["Content-Length"] = str(len(request.body))
    elif request.method in ("POST", "PUT", "PATCH"):
        prepared.headers["Content-Length"] = "0"
    return prepared


def _failure(error: Exception, exchange: _connections.Exchange) -> CatalogError:
    """Convert an exception of requests, urllib3 or the standard library."""
    chain = list(_http.causes(error))
    sent = exchange.sent
    if sent is None:
        # The session of a caller does not record it: only a connection error proves that nothing was sent.
        sent = not any(isinstance(cause, _NOT_CONNECTED) for cause in chain)
    if isinstance(error, requests.RequestException):
        # The request holds the credentials.
        error.request = None
    is_network_error = isinstance(error, OSError | urllib3.exceptions.HTTPError) and not isinstance(
        error, requests.exceptions.InvalidSchema | requests.exceptions.InvalidHeader
    )
    if not sent and not is_network_error:
        return InvalidArgumentError(f"the request cannot be sent: {type(error).__name__}")
    return _http.network_error(error, sent=sent, deadline=exchange.deadline, is_timeout=_is_timeout)


def _is_timeout(error: BaseException) -> bool:
    # NewConnectionError is a subclass of the timeout errors of urllib3.
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    return isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError) and not refused
