"""Which request limits there are, whom a request counts against, and the refusal."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from authsvc import conf
from authsvc.errors import RequestRateExceeded
from authsvc.observability import metrics
from authsvc.security import rate_limits

logger = logging.getLogger(__name__)

_BURST = 30
_LIFE = timedelta(hours=1)
_MINUTE = 60
_FIVE_MINUTES = 300
_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketParameters:
    """Capacity, refill per second and the life of a token bucket."""

    burst: float
    per_second: float
    life: timedelta = _LIFE


class Bucket(StrEnum):
    """One share per client for each; the value is its name in the table of counters."""

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

    @property
    def field(self) -> str:
        """The field of `Limits` with its rate."""
        return _FIELDS.get(self, "otp")

    @property
    def parameters(self) -> BucketParameters:
        rate: float = getattr(conf.current().limits, self.field)
        match self:
            case Bucket.ANONYMOUS_SIGN_INS:
                return BucketParameters(burst=int(rate), per_second=rate / _HOUR)
            case Bucket.FACTOR_CHALLENGE | Bucket.FACTOR_VERIFY:
                return BucketParameters(burst=_BURST, per_second=rate / _MINUTE, life=timedelta(minutes=1))
        return BucketParameters(burst=_BURST, per_second=rate / _FIVE_MINUTES)


_FIELDS = {
    Bucket.ANONYMOUS_SIGN_INS: "anonymous_users",
    Bucket.FACTOR_CHALLENGE: "factors",
    Bucket.FACTOR_VERIFY: "factors",
    Bucket.TOKEN: "token_refresh",
    Bucket.PASSKEY_AUTHENTICATION: "passkey",
    Bucket.VERIFY: "verify",
}


def request_key(*, headers: Mapping[str, str], client_ip: str, svc_forwarded_ip: str | None) -> str | None:
    """Whom a request counts against; None when it is not limited.

    `svc_forwarded_ip` is the valid address of Svc-Forwarded-For where that setting is on. After it comes the header
    that the operator named; only where none is named, the client's address.
    """
    if svc_forwarded_ip is not None:
        return svc_forwarded_ip
    name = conf.current().limits.header
    if not name:
        return client_ip
    value = headers.get(name)
    if not value:
        logger.warning(
            "request does not have a value for the rate limiting header, rate limiting is not applied",
            extra={"header": name},
        )
        return None
    first = value.partition(",")[0].strip()
    if not first:
        logger.warning(
            "first rate limit header value is empty, rate limiting is not applied",
            extra={"header": name},
        )
        return None
    return first


def check(bucket: Bucket, *, key: str | None) -> None:
    """Take one request from the share of `key`. Raises RequestRateExceeded when it is used up."""
    if key is None:
        return
    parameters = bucket.parameters
    wait = rate_limits.consume(
        bucket=bucket.value, key=key, burst=parameters.burst, per_second=parameters.per_second, life=parameters.life
    )
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels(bucket.value).inc()
        error = RequestRateExceeded()
        error.retry_after = wait
        raise error
