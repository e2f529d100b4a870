"""The WSGI application, and the background work of every process that serves it."""

from __future__ import annotations

import functools
import os
import signal

import django
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
django.setup()

from authsvc.observability import telemetry  # noqa: E402  (needs loaded settings)

telemetry.prepare()
_django = get_wsgi_application()

from django.core.cache import close_caches  # noqa: E402  (needs loaded settings)
from django.core.signals import request_finished, request_started  # noqa: E402  (the same)
from django.db import close_old_connections, reset_queries  # noqa: E402  (the same)
from django.urls import resolve  # noqa: E402  (needs loaded apps)

from authsvc import conf, jobs  # noqa: E402  (the same)
from authsvc.api.parsing import Utf8Request  # noqa: E402  (the same)
from authsvc.observability import logs  # noqa: E402  (the same)
from authsvc.server import malloc_trim, processes, reload, serving, structs, threaded_requests  # noqa: E402  (the same)
from authsvc.server.request_slots import RequestSlots  # noqa: E402  (the same)

# A tenth of the time of a short request: no cache is in use, the database backend logs statements itself, and the
# check at the start of a request closes connections that the former request has broken.
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)
request_finished.disconnect(close_old_connections)

resolve("/health")  # loads every view, so that no first request waits for it
structs.inspect_all()
_django.request_class = Utf8Request
slots = RequestSlots(max(1, serving.threads(conf.current())))
reload.prepare(slots)
handler = reload.keep_settings(_django)
"""The application for servers that take a slot for each request themselves."""
application = threaded_requests.wrap(handler, slots) if processes.is_supervised() else handler
processes.in_each_process(functools.partial(telemetry.start_in_process, is_leader=processes.is_leader))
processes.in_each_process(reload.start)
processes.in_each_process(jobs.start_in_process)
processes.in_each_process(malloc_trim.trim_regularly)
processes.on_signal(signal.SIGUSR2, logs.reopen)
