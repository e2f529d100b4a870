"""The only client for outgoing HTTP: a deadline per call, a size limit for responses, no cookies."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson
import requests
import urllib3
from requests.adapters import HTTPAdapter

from authsvc import __version__
from authsvc.outgoing import bulkhead, connections

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
# Headers and framing of a response, in addition to its body.
_MAX_OVERHEAD_BYTES = 1_048_576
AUTHORITIES: str = requests.utils.DEFAULT_CA_BUNDLE_PATH
"""The bundled file of certificate authorities."""
_HEADERS = {"User-Agent": f"authsvc/{__version__}", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}

logger = logging.getLogger(__name__)


class Unreachable(Exception):
    """No usable response: a failure of network, DNS, TLS or protocol, a missed deadline, or a body that is too long.

    The text names the cause and never contains the URL, whose query may contain secrets.
    """


class NotConnected(Unreachable):
    """No response began: a failure of network, DNS or TLS."""


class NotPublic(NotConnected):
    """With `public_only`, no address of the host may be called."""


class TlsFailed(NotConnected):
    """No response began, because of the certificate or the protocol of TLS."""


class TimedOut(Unreachable):
    """The deadline passed."""


class ResponseTooLarge(Unreachable):
    """The response exceeds the size limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response of the peer, with any status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Header names are case-insensitive."""
    body: bytes = field(repr=False)
    """The decoded body (Content-Encoding)."""

    def json(self) -> Any:
        """The body as JSON. Raises ValueError for invalid JSON."""
        return orjson.loads(self.body)


def send(
    method: str,
    url: str,
    *,
    timeout: timedelta,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    json: Any = None,
    content: bytes | None = None,
    auth: tuple[str, str] | None = None,
    truncate: bool = False,
    follow_redirects: bool = False,
    public_only: bool = False,
    has_secret_path: bool = False,
) -> Response:
    """Send one request and read the complete response within `timeout`. Raises Unreachable, and ServiceBusy.

    At most one of `form`, `json` and `content` is the body; `auth` is user and password (RFC 7617). A response longer
    than `max_bytes` is an error, or is cut there with `truncate`. `follow_redirects`, for GET only, follows up to five
    redirects and sends neither `headers` nor `auth` to another origin. `public_only` is for URLs that no operator
    chose: it connects to public addresses only, and never through a proxy, which would resolve the name again.
    `has_secret_path` keeps the path of the URL out of the log. The environment sets proxies and authorities.
    """
    if follow_redirects and method != "GET":
        raise ValueError("only GET follows redirects")
    call = connections.Call(
        deadline=time.monotonic() + timeout.total_seconds(),
        max_bytes=max_bytes + _MAX_OVERHEAD_BYTES,
        public_only=public_only,
    )
    body = {"data": form if content is None else content, "json": json}
    for _ in range(_MAX_REDIRECTS + 1):
        request = requests.Request(
            method, url, headers={**_HEADERS, **(headers or {})}, auth=_encode_auth(auth), **body
        )
        with bulkhead.wait_for(_loggable_address(url)[0]):
            response = _exchange(request, call, max_bytes=max_bytes, truncate=truncate, has_secret_path=has_secret_path)
        location = response.headers.get("Location") if follow_redirects and response.status in _REDIRECTS else None
        if location is None:
            return response
        target = _target(url, location)
        if _origin(target) != _origin(url):
            headers = auth = None
        url = target
    raise Unreachable(f"more than {_MAX_REDIRECTS} redirects")


def proxy(url: str) -> str:
    """The proxy for a URL from the environment, empty without one."""
    return requests.utils.select_proxy(url, _environment_settings(url)["proxies"]) or ""


def authorities(url: str) -> str:
    """The default file or folder of certificate authorities."""
    named: bool | str = _environment_settings(url)["verify"]
    return named if isinstance(named, str) else AUTHORITIES


def _exchange(
    request: requests.Request, call: connections.Call, *, max_bytes: int, truncate: bool, has_secret_path: bool
) -> Response:
    """Send a request and log its outcome. Raises Unreachable, with a text without data of the call."""
    started = time.monotonic()
    outcome: int | str = ""
    host, path = _loggable_address(request.url)
    try:
        response = _send(request, call, max_bytes=max_bytes, truncate=truncate)
    except (
        *(requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError),
        *(connections.SizeLimitExceeded, connections.NoPermittedAddress),
    ) as error:
        outcome = _reason(error)
        # The messages of the libraries quote the full URL.
        raise _kind(error)(outcome) from None
    else:
        outcome = response.status
        return response
    finally:
        fields = {"event": "http.send", "method": request.method, "host": host, "outcome": outcome}
        if not has_secret_path:
            fields["path"] = path
        logger.debug("outgoing request", extra={**fields, "seconds": round(time.monotonic() - started, 3)})


def _send(request: requests.Request, call: connections.Call, *, max_bytes: int, truncate: bool) -> Response:
    prepared = request.prepare()
    if urlsplit(prepared.url or "").scheme not in ("http", "https"):
        raise requests.exceptions.InvalidSchema
    settings = _environment_settings(prepared.url or "")
    if call.public_only:
        settings["proxies"] = {}
    connections.begin(call)
    session = _local.sessions[call.public_only]
    response = session.send(prepared, timeout=call.seconds_left(), allow_redirects=False, **settings)
    try:
        body = response.raw.read(max_bytes + 1, decode_content=True)
    finally:
        response.close()
    if len(body) > max_bytes and not truncate:
        raise connections.SizeLimitExceeded
    return Response(status=response.status_code, headers=response.headers, body=body[:max_bytes])


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = connections.POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = connections.POOLS
        return manager


class _PublicAdapter(_Adapter):
    def add_headers(self, request: requests.PreparedRequest, **_options: Any) -> None:
        """Remove trace headers, which instrumentation adds: they are for servers that an operator chose."""
        for name in _TRACE_HEADERS:
            request.headers.pop(name, None)


class _Session(requests.Session):
    """Sends prepared requests one by one: stores no cookies, and neither follows a redirect nor reads its body."""

    def __init__(self, adapter: HTTPAdapter) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Follow no redirects."""


class _ThreadLocal(threading.local):
    """Connections that a thread reuses for calls to the same host."""

    def __init__(self) -> None:
        # A connection to an unchecked address must not be reused by a call that needs a public one.
        self.sessions = {False: _Session(_Adapter(pool_maxsize=1)), True: _Session(_PublicAdapter(pool_maxsize=1))}


_local = _ThreadLocal()
# Only for proxies and certificate authorities.
_environment = requests.Session()


def _environment_settings(url: str) -> dict[str, Any]:
    return {**_environment.merge_environment_settings(url, {}, True, None, None)}


def _encode_auth(auth: tuple[str, str] | None) -> tuple[bytes, bytes] | None:
    return None if auth is None else (auth[0].encode(), auth[1].encode())


def _target(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        scheme = urlsplit(target).scheme
    except ValueError:
        raise Unreachable("redirected to what is no address") from None
    if scheme not in ("http", "https") or (scheme == "http" and urlsplit(url).scheme == "https"):
        raise Unreachable("redirected to another scheme")
    return target


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _loggable_address(url: str) -> tuple[str, str]:
    """Host and path, the parts of a URL that may be logged."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.hostname or "", parts.path


def _reason(error: Exception) -> str:
    """The root cause of an error, in words that contain no data of the call."""
    chain = list(_causes(error))
    for cause in reversed(chain):
        if isinstance(cause, connections.SizeLimitExceeded):
            return "the response is too long"
        if isinstance(cause, connections.NoPermittedAddress):
            return "the host has no public address"
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or type(cause).__name__}"
        if isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError):
            return "timed out"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return type(chain[-1]).__name__


def _kind(error: Exception) -> type[Unreachable]:
    chain = list(_causes(error))
    if any(isinstance(cause, connections.SizeLimitExceeded) for cause in chain):
        return ResponseTooLarge
    if any(isinstance(cause, connections.NoPermittedAddress) for cause in chain):
        return NotPublic
    if any(isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError) for cause in chain):
        return TimedOut
    if not isinstance(error, requests.ConnectionError):
        return Unreachable  # errors while the body is read are those of urllib3 and of the socket
    return TlsFailed if any(isinstance(cause, ssl.SSLError) for cause in chain) else NotConnected


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
