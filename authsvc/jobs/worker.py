"""The job worker: a thread with a separate event loop and connections, which restarts after every failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import procrastinate.worker
from django.db import connections
from procrastinate.contrib.django.utils import connector_params
from psycopg_pool import AsyncConnectionPool

from authsvc import conf
from authsvc.jobs import procrastinate_app, registry, stalled_jobs

POLL_SECONDS = 2.0
"""Notifications announce new jobs. Retries, and all jobs behind a transaction pooler, are found by polling."""
HEARTBEAT_SECONDS = 2.0
STALE_AFTER = timedelta(seconds=8)
CONNECT_SECONDS = 5.0
RESTART_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Worker:
    """Runs one job at a time until stopped. Can be started once."""

    def __init__(self) -> None:
        self._queue = registry.queue()
        # One thread, so that jobs use one Django connection, which the same thread closes.
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")
        self._app = procrastinate_app.build_app(queue=self._queue, threads=self._executor)
        self._stopping = threading.Event()
        self._request_stop: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._run_until_stopped, name="jobs", daemon=True)

    def start(self) -> None:
        # The library logs every job with its arguments; tasks log their failures themselves.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        logging.getLogger("procrastinate.worker").addFilter(_is_not_about_job)
        self._thread.start()
        for loop in registry.worker_loops.values():
            threading.Thread(target=_run_loop, args=(loop, self._stopping), name=loop.name, daemon=True).start()

    def stop(self, *, seconds: float) -> bool:
        """Start no further job and wait for the running one; False if it has not ended within `seconds`.

        Another worker reclaims a job that the end of the process interrupts.
        """
        self._stopping.set()
        if self._request_stop is not None:
            with contextlib.suppress(
                RuntimeError
            ):  # the loop has just ended, and the next one checks `_stopping` first
                self._request_stop()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._run_once())
            except Exception as error:  # noqa: BLE001  (committed messages must be delivered)
                logger.warning("job worker restarts", extra={"error": repr(error.__cause__ or error)})
            self._stopping.wait(RESTART_SECONDS)
        self._executor.submit(connections.close_all)
        self._executor.shutdown()

    async def _run_once(self) -> None:
        """Run jobs until stopped. Raises if the worker ends earlier."""
        pool = AsyncConnectionPool(
            kwargs=connector_params(),
            min_size=1,
            max_size=2,
            timeout=CONNECT_SECONDS,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        connector = procrastinate_app.ReconnectingConnector()
        with self._app.replace_connector(connector):
            async with pool:
                await connector.open_async(pool)
                await self._run_jobs(pool)

    async def _run_jobs(self, pool: AsyncConnectionPool) -> None:
        worker = procrastinate.worker.Worker(
            app=self._app,
            queues=[self._queue],
            install_signal_handlers=False,
            delete_jobs="successful",
            fetch_job_polling_interval=POLL_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            stalled_worker_timeout=STALE_AFTER.total_seconds(),
            # A pooler in transaction mode accepts LISTEN but delivers no notification.
            listen_notify=conf.current().database.prepared_statements_enabled,
        )
        loop = asyncio.get_running_loop()
        self._request_stop = lambda: loop.call_soon_threadsafe(worker.stop)
        if self._stopping.is_set():
            return
        reclaiming = asyncio.create_task(
            stalled_jobs.reclaim_stalled_jobs(pool, queue=self._queue, stale_after=STALE_AFTER)
        )
        # The task ends only if it loses its connection; the worker has probably lost its connection too.
        reclaiming.add_done_callback(lambda _: worker.stop())  # type: ignore[no-untyped-call]
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            while not reclaiming.done():
                # Repeated, because before Python 3.12 a cancellation is lost if it meets a result.
                reclaiming.cancel()
                await asyncio.wait({reclaiming}, timeout=1)
            lost = None if reclaiming.cancelled() else reclaiming.exception()
        if not self._stopping.is_set():
            raise ConnectionError("the worker ended unexpectedly") from lost


def _is_not_about_job(record: logging.LogRecord) -> bool:
    return not str(getattr(record, "action", "")).startswith("job_")


def _run_loop(loop: registry.WorkerLoop, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            loop.function()
        except Exception:
            logger.exception("worker loop failed", extra={"task": loop.name})
        stopping.wait(loop.interval().total_seconds())
