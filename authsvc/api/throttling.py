"""Limits requests per client with token buckets in PostgreSQL, and expensive lists to one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from authsvc import caller, conf
from authsvc.errors import RequestRateExceeded
from authsvc.observability import metrics
from authsvc.security import rate_limits

if TYPE_CHECKING:  # `rest_framework.views` imports this module
    from rest_framework.views import APIView

logger = logging.getLogger(__name__)

LIST_WAIT_SECONDS = 0.2
"""Longest wait for the list slot; then a list runs beside the others, so that waiting lists never hold all threads."""
_list_slot = threading.BoundedSemaphore()

BURST = 30
"""Tokens of a full bucket, except that of anonymous sign-ins."""
_LIFE = timedelta(hours=1)
_MINUTE = 60
_FIVE_MINUTES = 300
_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketParameters:
    """Capacity, refill per second and lifetime of a token bucket."""

    burst: float
    per_second: float
    life: timedelta = _LIFE


class Bucket(StrEnum):
    """The rate limits; each client has one token bucket per member. The value is `bucket` in the counter table."""

    TOKEN = "Token"
    VERIFY = "Verify"
    RECOVER = "Recover"
    RESEND = "Resend"
    MAGIC_LINK = "MagicLink"
    OTP = "Otp"
    SIGNUPS = "Signups"
    USER = "User"
    ANONYMOUS_SIGN_INS = "AnonymousSignIns"
    FACTOR_CHALLENGE = "FactorChallenge"
    FACTOR_VERIFY = "FactorVerify"
    PASSKEY_AUTHENTICATION = "PasskeyAuthentication"
    AUTHORIZE = "Authorize"
    CALLBACK = "Callback"
    WEB3 = "Web3"
    OAUTH_AUTHORIZE = "OAuthAuthorize"
    OAUTH_CLIENT_REGISTER = "OAuthClientRegister"
    DEVICE_AUTHORIZATION = "DeviceAuthorization"
    DEVICE_CODE = "DeviceCode"

    @property
    def field(self) -> str:
        """The field of `conf.Limits` that holds the rate."""
        return _FIELDS.get(self, "otp")

    @property
    def parameters(self) -> BucketParameters:
        rate: float = getattr(conf.current().limits, self.field)
        match self:
            case Bucket.ANONYMOUS_SIGN_INS:
                return BucketParameters(burst=int(rate), per_second=rate / _HOUR)
            case Bucket.FACTOR_CHALLENGE | Bucket.FACTOR_VERIFY:
                return BucketParameters(burst=BURST, per_second=rate / _MINUTE, life=timedelta(minutes=1))
        return BucketParameters(burst=BURST, per_second=rate / _FIVE_MINUTES)


_FIELDS = {
    Bucket.ANONYMOUS_SIGN_INS: "anonymous_users",
    Bucket.FACTOR_CHALLENGE: "factors",
    Bucket.FACTOR_VERIFY: "factors",
    Bucket.TOKEN: "token_refresh",
    Bucket.AUTHORIZE: "token_refresh",
    Bucket.CALLBACK: "token_refresh",
    Bucket.OAUTH_AUTHORIZE: "token_refresh",
    Bucket.PASSKEY_AUTHENTICATION: "passkey",
    Bucket.WEB3: "web3",
    Bucket.VERIFY: "verify",
    Bucket.OAUTH_CLIENT_REGISTER: "oauth_registration",
    Bucket.DEVICE_AUTHORIZATION: "token_refresh",
    Bucket.DEVICE_CODE: "verify",
}


class TokenBucketThrottle(BaseThrottle):
    """Takes a token from the bucket that the view names in `throttle_scope`; views without one are not limited."""

    _wait: float | None = None

    def allow_request(self, request: Request, view: APIView) -> bool:
        bucket: Bucket | None = getattr(view, "throttle_scope", None)
        if bucket is not None:
            self._wait = _consume(bucket, request)
        return self._wait is None

    def wait(self) -> float | None:
        return self._wait


def check(bucket: Bucket, request: HttpRequest) -> None:
    """Take a token where the bucket depends on the request, or is checked late. Raises RequestRateExceeded."""
    wait = _consume(bucket, request)
    if wait is not None:
        raise RequestRateExceeded(retry_after=wait)


def consume(bucket: Bucket, *, key: str) -> float | None:
    """Take a token from the bucket of `key`. Returns None on success, else the seconds until a token is available."""
    parameters = bucket.parameters
    wait = rate_limits.consume(
        bucket=bucket.value, key=key, burst=parameters.burst, per_second=parameters.per_second, life=parameters.life
    )
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels(bucket.value).inc()
    return wait


@contextmanager
def list_slot() -> Iterator[None]:
    """Run one list at a time, because a list costs as much CPU as several other requests of the process.

    Must not be called inside a transaction, which would stay open while the list waits.
    """
    has_slot = _list_slot.acquire(timeout=LIST_WAIT_SECONDS)
    try:
        yield
    finally:
        if has_slot:
            _list_slot.release()


def _consume(bucket: Bucket, request: HttpRequest) -> float | None:
    """Take a token for the client of a request, as `consume`.

    A request without the header of AUTH_RATE_LIMIT_HEADER is not limited, which is logged.
    """
    key, name = caller.client_key(request), conf.current().limits.header
    if key or not name:
        return consume(bucket, key=key)
    if request.headers.get(name):
        logger.warning(
            "first rate limit header value is empty, rate limiting is not applied",
            extra={"header": name},
        )
    else:
        logger.warning(
            "request does not have a value for the rate limiting header, rate limiting is not applied",
            extra={"header": name},
        )
    return None
