"""Requests a token from a token endpoint (RFC 6749 §3.2, §5)."""

from __future__ import annotations

import base64
import binascii
import json
import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

from catalogclient import _call_scope, _error_mapping, _headers, _redact
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._messages import HttpResponse, PreparedRequest
from catalogclient._operations import parsing
from catalogclient._options import RetryPolicy, Timeout
from catalogclient._retries import RetryState
from catalogclient.auth._base import is_token
from catalogclient.auth._static import basic
from catalogclient.errors import CatalogError, InvalidResponseError, OAuthError

if TYPE_CHECKING:
    from catalogclient._transport import Transport

_OPERATION = OPERATIONS[Endpoint.GET_TOKEN]
TOTAL_TIMEOUT = 120.0
"""Seconds for a token request with all attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An access token. Times are seconds of the monotonic clock, infinity if the expiry is unknown."""

    token: str = field(repr=False)
    expires_at: float
    refresh_at: float


def request_token(
    transport: Transport,
    url: str,
    form: dict[str, str],
    *,
    client: tuple[str | None, str | None],
    in_header: bool,
    timeout: Timeout,
    total_timeout: float,
    retry: RetryPolicy | None,
    margin: float,
    default_expires_in: float | None,
) -> Token:
    """Request a token. `margin` is the number of seconds before expiry at which the token is renewed.

    Raises OAuthError for an error response, InvalidResponseError for a response without a token, and NetworkError or
    ServerError if all attempts failed.
    """
    identity, secret = client
    fields = _headers.basic(user_agent=None, transport=transport.name)
    fields["Content-Type"] = "application/x-www-form-urlencoded"
    if in_header and identity is not None:
        # RFC 6749 §2.3.1: both are form-encoded before they are joined.
        fields["Authorization"] = basic(quote_plus(identity), quote_plus(secret or ""))
    else:
        form = {
            **form,
            **({"client_id": identity} if identity else {}),
            **({"client_secret": secret} if secret else {}),
        }
    request = PreparedRequest("POST", url, fields, urlencode(form).encode())
    try:
        response = _send(transport, request, timeout=timeout, total_timeout=total_timeout, retry=retry)
        return _token(response, margin=margin, default_expires_in=default_expires_in)
    except CatalogError as error:
        error.method, error.url, error.operation = "POST", _redact.url_without_secrets(url), _OPERATION.name
        raise


def _send(
    transport: Transport,
    request: PreparedRequest,
    *,
    timeout: Timeout,
    total_timeout: float,
    retry: RetryPolicy | None,
) -> HttpResponse:
    now = time.monotonic()
    deadline = now + total_timeout
    scope = _call_scope.current()
    if scope is not None:
        timeout = timeout.at_most(scope.timeout)
        deadline = min(deadline, scope.deadline or deadline)
    retries = RetryState(
        operation=_OPERATION, policy=retry, key=None, key_lifetime=None, started_at=now, deadline=deadline
    )
    while True:
        retries.begin_attempt(now=time.monotonic())
        error: CatalogError
        try:
            response = transport.exchange(request, timeout=timeout, deadline=deadline)
        except CatalogError as failure:
            error = failure
        else:
            if response.status < 400:
                return response
            error = _error(response)
        delay = retries.next_delay(error, now=time.monotonic())
        _call_scope.sleep(delay, scope.closed if scope else threading.Event())


def _error(response: HttpResponse) -> CatalogError:
    error = _error_mapping.error_from_response(response, _OPERATION)
    if response.status >= 500:
        return error
    body: Any = error.details if isinstance(error.details, dict) else {}
    code = body.get("error")
    return OAuthError(
        error.message,
        error=code if isinstance(code, str) else "",
        error_description=parsing.optional_text(body, "error_description"),
        error_uri=parsing.optional_text(body, "error_uri"),
        status=error.status,
        type=error.type,
        code=error.code,
        details=error.details,
        request_id=error.request_id,
        retry_after=error.retry_after,
    )


def _token(response: HttpResponse, *, margin: float, default_expires_in: float | None) -> Token:
    body = parsing.document(response)
    token = body.get("access_token")
    if not is_token(token):
        raise InvalidResponseError("the response has no valid access_token", status=response.status)
    kind = body.get("token_type", "bearer")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a"):
        raise InvalidResponseError("the response has a token_type other than bearer", status=response.status)
    lifetime = _seconds(body.get("expires_in"))
    if lifetime is None:
        lifetime = _until_exp(token)
    if lifetime is None:
        lifetime = default_expires_in
    now = time.monotonic()
    if lifetime is None:
        return Token(token=token, expires_at=math.inf, refresh_at=math.inf)
    return Token(token=token, expires_at=now + lifetime, refresh_at=now + lifetime - min(margin, lifetime / 2))


def _seconds(value: object) -> float | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return float(value)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
    return float(value) if usable else None  # type: ignore[arg-type]  # a number if usable


def _until_exp(token: str) -> float | None:
    """Return the seconds until the `exp` claim of a JWT. The signature is not verified, because the server does."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    exp = _seconds(claims.get("exp")) if isinstance(claims, dict) else None
    return None if exp is None else exp - time.time()
