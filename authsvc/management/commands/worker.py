"""`manage.py worker`: delivery of messages and periodic work in a separate process."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from authsvc import jobs
from authsvc.observability import telemetry
from authsvc.server import reload, structs
from authsvc.server.request_slots import RequestSlots

DRAIN_SECONDS = 60.0

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Delivers messages and runs periodic work until SIGTERM, SIGINT or SIGHUP."

    def handle(self, *args: Any, **options: Any) -> None:
        stop_requested = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, lambda *_: stop_requested.set())
        structs.inspect_all()
        telemetry.prepare()
        telemetry.start_in_process(is_leader=lambda: True)
        reload.prepare(RequestSlots(1))
        reload.start()
        worker = jobs.Worker()
        worker.start()
        logger.info("worker started")
        stop_requested.wait()
        logger.info("received graceful shutdown signal")
        if not worker.stop(seconds=DRAIN_SECONDS):
            logger.error("shutdown failed")
