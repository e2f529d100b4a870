"""`manage.py worker`: delivery of messages and periodic work in a separate process."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from authsvc import conf, jobs
from authsvc.observability import logs, telemetry
from authsvc.server import processes, reload, startup, structs
from authsvc.server.request_slots import RequestSlots

DRAIN_SECONDS = 60.0

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Delivers messages and runs periodic work until SIGTERM, SIGINT or SIGHUP."
    requires_system_checks = []  # they are logged

    def handle(self, *args: Any, **options: Any) -> None:
        # The first process of a container ignores signals that it neither handles nor blocks.
        signal.pthread_sigmask(signal.SIG_BLOCK, processes.STOPPING)
        startup.run_system_checks()
        startup.log_notices(conf.current())
        structs.inspect_all()
        processes.on_signal(signal.SIGUSR2, logs.reopen)
        reload.prepare(RequestSlots(1))
        stop_requested = threading.Event()

        def handle(number: int) -> None:
            if number in processes.STOPPING:
                stop_requested.set()
            else:
                processes.handle_signal(number)

        processes.handle_signals_in_thread(handle)
        telemetry.prepare()
        telemetry.start_in_process(is_leader=lambda: True)
        reload.start()
        worker = jobs.Worker()
        worker.start()
        logger.info("worker started")
        stop_requested.wait()
        logger.info("received graceful shutdown signal")
        if not worker.stop(seconds=DRAIN_SECONDS):
            logger.error("shutdown failed")
