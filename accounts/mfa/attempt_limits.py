"""Wrong codes, counted per factor and user over all processes, challenges and addresses."""

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
def counted(user_id: UUID, of: str) -> Iterator[None]:
    """Count what happens inside as a wrong code of this user, unless it ends well; `of` says of which factor.

    As many as a one-time code may have are let through at once, and as many more in each hour. It is counted before
    the code is looked at, so that tries side by side are no way around it. Raises RequestRateExceeded.
    """
    key = f"{user_id}/{of}"
    most = conf.current().codes.max_attempts
    if not most:
        yield
        return
    wait = rate_limits.consume(
        bucket=_BUCKET, key=key, burst=most, per_second=most / _PERIOD.total_seconds(), life=_LIFE
    )
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels("wrong_codes").inc()
        error = RequestRateExceeded()
        error.retry_after = wait
        raise error
    yield
    rate_limits.refund(bucket=_BUCKET, key=key)
