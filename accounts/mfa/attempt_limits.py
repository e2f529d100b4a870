"""Limits wrong codes per user and factor, over all processes, challenges and IP addresses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from authsvc import conf
from authsvc.errors import RequestRateExceeded
from authsvc.observability import metrics
from authsvc.security import rate_limits

_BUCKET = "WrongFactorCode"
_PERIOD = timedelta(hours=1)
_LIFE = timedelta(days=1)


@contextlib.contextmanager
def limit_attempts(user_id: UUID, factor: str) -> Iterator[None]:
    """Count the body as a wrong code for this factor of the user, unless it ends without an exception.

    Allows as many wrong codes at once as a one-time code allows, and as many more in each hour. The attempt is counted
    before the code is verified, so that concurrent attempts cannot exceed the limit. Raises RequestRateExceeded.
    """
    key = f"{user_id}/{factor}"
    limit = conf.current().codes.max_attempts
    if not limit:
        yield
        return
    wait = rate_limits.consume(
        bucket=_BUCKET, key=key, burst=limit, per_second=limit / _PERIOD.total_seconds(), life=_LIFE
    )
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels("wrong_codes").inc()
        error = RequestRateExceeded()
        error.retry_after = wait
        raise error
    yield
    rate_limits.refund(bucket=_BUCKET, key=key)
