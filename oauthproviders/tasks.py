"""What the workers look after: secrets that end without anybody noticing, and which rows have had their time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from authsvc import clock, conf, jobs
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from oauthproviders.providers import apple_client_secret

_NOTICE = timedelta(days=30)
_STATE_KEPT_FOR = timedelta(hours=24)

logger = logging.getLogger(__name__)


@jobs.worker_loop(name="oauthproviders.warn_of_apple_secret", interval=lambda: timedelta(days=1))
def warn_of_apple_secret() -> None:
    """Once a day, and at every start, until a new secret is configured."""
    apple = conf.current().providers["apple"]
    if not (apple.enabled and apple.secret):
        return
    fields = {"event": "provider.secret", "provider": "apple"}
    ends = apple_client_secret.expires_at(apple.secret.reveal())
    if ends is None:
        logger.warning(
            "AUTH_EXTERNAL_APPLE_SECRET is not what `manage.py apple_secret` prints; nobody can sign in with Apple",
            extra=fields,
        )
    elif ends <= clock.now():
        logger.error("AUTH_EXTERNAL_APPLE_SECRET has expired; make a new one: manage.py apple_secret", extra=fields)
    elif ends <= clock.now() + _NOTICE:
        logger.warning(
            "AUTH_EXTERNAL_APPLE_SECRET expires soon; make a new one: manage.py apple_secret",
            extra={**fields, "expires_at": ends.isoformat()},
        )


def _state_is_old(at: datetime) -> Sequence[datetime]:
    return (at - _STATE_KEPT_FOR,)


cleanup.register(CleanupRule(table="oauth_client_states", condition="t.created_at < %s", parameters=_state_is_old))
