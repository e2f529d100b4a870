"""Worker tasks: a warning before Apple's client secret expires, and the cleanup of expired rows."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.utils import timezone

from authsvc import conf, jobs
from authsvc.jobs import cleanup
from authsvc.jobs.cleanup import CleanupRule
from oauthproviders.providers import apple

_WARNING_PERIOD = timedelta(days=30)
_CLIENT_STATE_RETENTION = timedelta(hours=1)

logger = logging.getLogger(__name__)


@jobs.worker_loop(name="oauthproviders.warn_of_apple_secret", interval=lambda: timedelta(days=1))
def warn_of_apple_secret() -> None:
    """Log that Apple's client secret has expired or expires soon. Runs daily and at each start."""
    config = conf.current().providers["apple"]
    if not (config.enabled and config.secret):
        return
    fields = {"event": "provider.secret", "provider": "apple"}
    expires_at = apple.client_secret_expiry(config.secret.reveal())
    if expires_at is None:
        logger.warning(
            "AUTH_EXTERNAL_APPLE_SECRET is not an output of `manage.py apple_secret`; sign-in with Apple fails",
            extra=fields,
        )
    elif expires_at <= timezone.now():
        logger.error("AUTH_EXTERNAL_APPLE_SECRET has expired; create a new one: manage.py apple_secret", extra=fields)
    elif expires_at <= timezone.now() + _WARNING_PERIOD:
        logger.warning(
            "AUTH_EXTERNAL_APPLE_SECRET expires soon; create a new one: manage.py apple_secret",
            extra={**fields, "expires_at": expires_at.isoformat()},
        )


cleanup.register(
    CleanupRule(
        table="wallet_messages",
        key="digest",
        condition="t.expires_at < %s",
        # The clock of a server that accepts messages may be behind that of the worker.
        parameters=cleanup.before(timedelta(minutes=1)),
        is_mandatory=True,
    ),
    CleanupRule(
        table="oauth_client_states",
        condition="t.created_at < %s",
        parameters=cleanup.before(_CLIENT_STATE_RETENTION),
        is_mandatory=True,
    ),
)
