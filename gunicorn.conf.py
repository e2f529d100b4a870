"""Settings of gunicorn for this service, for `gunicorn authsvc.wsgi` and for `AUTH_SERVER=gunicorn`."""

from __future__ import annotations

import os
import signal
from typing import Any

from django.conf import settings

from authsvc.core import serving

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
_config = settings.AUTH

bind = f"{serving.address(_config)}:{_config.api.port}"
workers = serving.processes(_config)
worker_class = "gthread"
threads = serving.threads(_config)
http_parser = "fast"
graceful_timeout = serving.DRAIN_SECONDS
keepalive = serving.IDLE_SECONDS
# Access tokens travel in a header and grow with the user's metadata.
limit_request_line = 8190
limit_request_fields = 100
limit_request_field_size = 16_384
# The service writes its own access log; what gunicorn has to say goes the way of all records.
accesslog = None
logconfig_dict = {
    **settings.LOGGING,
    "loggers": {
        **settings.LOGGING.get("loggers", {}),
        "gunicorn.error": {"level": "WARNING", "handlers": [], "propagate": True},
    },
}


def post_worker_init(worker: Any) -> None:
    """Let Ctrl-C end a process as SIGTERM does: gunicorn's own way may take the lock of its thread pool twice."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, worker.handle_exit)
