"""The WSGI application, and what lives beside it in every process that serves it."""

from __future__ import annotations

import os
import signal

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
_django = get_wsgi_application()

from django.urls import resolve  # noqa: E402  (needs loaded apps)

from authsvc import jobs, reloading  # noqa: E402  (the same)
from authsvc.observability import logs  # noqa: E402  (the same)
from authsvc.observability.telemetry import in_process as telemetry  # noqa: E402  (the same)
from authsvc.server import malloc_trim, processes, structs  # noqa: E402  (the same)

resolve("/health")  # loads every view, so that no first request waits for it
structs.look_at_all()
reloading.prepare()
application = reloading.around(_django)
processes.in_each_process(telemetry.start_in_process)
processes.in_each_process(reloading.start)
processes.in_each_process(jobs.start_in_process)
processes.in_each_process(malloc_trim.give_back_regularly)
processes.on_signal(signal.SIGUSR2, logs.reopen)
