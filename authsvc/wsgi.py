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

from django.urls import resolve  # noqa: E402  (needs loaded apps)

from authsvc import jobs  # noqa: E402  (the same)
from authsvc.observability import logs  # noqa: E402  (the same)
from authsvc.server import malloc_trim, processes, reload, structs  # noqa: E402  (the same)

resolve("/health")  # loads every view, so that no first request waits for it
structs.inspect_all()
reload.prepare()
application = reload.wrap(_django)
processes.in_each_process(functools.partial(telemetry.start_in_process, is_leader=processes.is_leader))
processes.in_each_process(reload.start)
processes.in_each_process(jobs.start_in_process)
processes.in_each_process(malloc_trim.trim_regularly)
processes.on_signal(signal.SIGUSR2, logs.reopen)
