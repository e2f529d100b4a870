"""One attempt of a delivery: the signed request, and the outcome of its response."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from uuid import UUID

from authsvc import __version__
from authsvc.conf import Secret
from authsvc.outgoing import http
from authsvc.outgoing.http import Response, Unreachable
from hooks.invocation import signatures
from hooks.models import DeliveryStatus

_MAX_RESPONSE_BYTES = 65_536
_MAX_HEAD_LENGTH = 1024
_MAX_ERROR_LENGTH = 500
_MAX_RETRY_AFTER = timedelta(hours=24)
_JITTER = 0.2
_SUCCESS = range(200, 300)
GONE = 410
_WITH_RETRY_AFTER = frozenset({429, 503})
_HEADERS = {
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"authsvc-webhooks/{__version__}",
}
# Signatures and secrets of webhooks, tokens, credentials, and values whose name says that they are secret.
# Without nested or leading repetitions, whose time grows with the square of the length.
_SECRETS = re.compile(
    r"""whsec_[A-Za-z0-9+/=]+ | \bv1a?,[A-Za-z0-9+/=]{16,} | \beyJ[\w-]++\.[\w-]++(\.[\w-]*+)?
    | \b(Bearer|Basic)\s++[^\s"',]+ | (?<=://)[^\s/"@]++@
    | (?P<name>(secret|password|passwd|token|api[_-]?key|authorization|cookie|otp)[\w-]{0,64}["']?\s{0,8}[:=]\s{0,8})
      ("[^"]*"?|'[^']*'?|[^\s,;&"'}<]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_REDACTED = "[redacted]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    event_id: UUID
    attempt: int
    url: str = field(repr=False)
    secrets: Sequence[Secret]
    """In the form `v1,whsec_…`; each of them signs."""
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The result of one request."""

    started_at: datetime
    duration: timedelta
    status: int | None
    """None without a response."""
    error: str = ""
    """The reason why there is no response, or that its status is no success."""
    head: str | None = field(default=None, repr=False)
    """The start of the response, without secrets."""
    retry_after: timedelta = timedelta()
    """The receiver asks for no other attempt before."""

    @property
    def is_success(self) -> bool:
        return self.status in _SUCCESS


def attempt(message: WebhookMessage, *, timeout: timedelta, public_only: bool) -> AttemptResult:
    """Send the request and wait for the response. Raises nothing for failures of the network and of the receiver."""
    started_at, started = datetime.now(UTC), time.monotonic()
    signed = signatures.signed_headers(
        message.secrets,
        message_id=f"evt_{message.event_id}",
        timestamp=int(started_at.timestamp()),
        body=message.body,
    )
    headers = {**_HEADERS, **signed, "webhook-attempt": str(message.attempt)}
    response, error = None, ""
    try:
        if public_only and not message.url.lower().startswith("https:"):
            # The endpoint was created while private networks were permitted.
            raise http.NotPublic
        response = http.send(
            "POST", message.url, timeout=timeout, max_bytes=_MAX_RESPONSE_BYTES, headers=headers, content=message.body,
            truncate=True, public_only=public_only, has_secret_path=True,
        )  # fmt: skip
    except http.NotPublic:
        error = "address not allowed"
    except Unreachable as failure:
        error = str(failure)
    duration = timedelta(seconds=time.monotonic() - started)
    if response is None:
        return AttemptResult(started_at=started_at, duration=duration, status=None, error=error[:_MAX_ERROR_LENGTH])
    return AttemptResult(
        started_at=started_at,
        duration=duration,
        status=response.status,
        error="" if response.status in _SUCCESS else f"status {response.status}",
        head=redact(response.body),
        retry_after=_retry_after(response, at=started_at),
    )


def next_attempt_at(
    result: AttemptResult, *, scheduled_attempt: int, schedule: Sequence[timedelta], at: datetime
) -> datetime | None:
    """The time of the next attempt; None after a success, a response that ends the delivery, or the last attempt."""
    if result.is_success or result.status == GONE or scheduled_attempt > len(schedule):
        return None
    pause = schedule[scheduled_attempt - 1] * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  (no secret)
    return at + max(pause, result.retry_after)


def delivery_status(result: AttemptResult, *, next_attempt_at: datetime | None) -> DeliveryStatus:
    """The status of a delivery after this attempt; `next_attempt_at` is None if no other one follows."""
    if result.is_success:
        return DeliveryStatus.SUCCEEDED
    return DeliveryStatus.FAILED if next_attempt_at is None else DeliveryStatus.PENDING


def redact(body: bytes) -> str:
    """The start of a response as text that contains no secret, as far as its form shows one."""
    # Longer than the result, so that a secret at its end is recognised.
    text = body[: 4 * _MAX_HEAD_LENGTH].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return _SECRETS.sub(lambda match: (match["name"] or "") + _REDACTED, text)[:_MAX_HEAD_LENGTH]


def _retry_after(response: Response, *, at: datetime) -> timedelta:
    """The pause that the header `Retry-After` asks for (RFC 9110 §10.2.3), at most 24 hours."""
    text = response.headers.get("Retry-After", "").strip() if response.status in _WITH_RETRY_AFTER else ""
    if text.isascii() and text.isdecimal():
        return min(timedelta(seconds=min(int(text[:10]), 10**9)), _MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return timedelta()
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(until - at, timedelta()), _MAX_RETRY_AFTER)
