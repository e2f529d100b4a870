"""Sends prepared requests over HTTP with `requests`. Enforces timeouts and the size limit."""

from __future__ import annotations

import io
import os
import ssl
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict

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
        self._environments: dict[tuple[str, str, int], dict[str, Any]] = {}
        self._session = self._options.session or _session(self._options)

    def _exchange(self, request: PreparedRequest, exchange: _connections.Exchange, timeout: Timeout) -> HttpResponse:
        adapter = self._session.get_adapter(request.url)
        _connections.begin(exchange)
        exchange.sent = False if isinstance(adapter, _Adapter) else None
        response = adapter.send(
            _prepare(request),
            stream=True,
            # None is no limit, which the stubs of requests do not permit.
            timeout=(exchange.remaining(timeout.connect), exchange.remaining(timeout.read)),  # type: ignore[arg-type]
            **self._environment(request.url),
        )
        exchange.sent = True
        try:
            status = response.status_code
            _http.check_redirect(status, response.headers.get("Location"))
            return HttpResponse(status, response.headers, self._body(response, status))
        finally:
            response.close()

    def _body(self, response: requests.Response, status: int) -> io.BytesIO:
        body = io.BytesIO()
        limit = self._options.max_response_bytes
        while chunk := response.raw.read(_CHUNK_SIZE, decode_content=True):
            if not _http.append(body, chunk, status=status, limit=limit):
                break
        return body

    def _environment(self, url: str) -> dict[str, Any]:
        """Return proxies, CA bundle and client certificate for a URL. The slow lookup is cached per origin."""
        origin = _urls.origin(url)
        environment = self._environments.get(origin)
        if environment is None:
            session = requests.Session()
            session.trust_env = self._options.trust_env
            environment = dict(
                session.merge_environment_settings(
                    _redact.url_without_secrets(url),
                    dict(self._options.proxies or {}),
                    None,
                    self._options.verify,
                    self._options.cert,
                )
            )
            environment.pop("stream", None)
            if isinstance(environment["verify"], str):
                check_file(environment["verify"], "the CA bundle")
            self._environments[origin] = environment
        return environment


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
