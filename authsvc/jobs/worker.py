"""The job worker: a thread with an event loop and connections of its own that starts again whatever happens."""

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
"""New jobs announce themselves; jobs to be run again, and all behind a transaction pooler, are found by looking."""
HEARTBEAT_SECONDS = 2.0
STALE_AFTER = timedelta(seconds=8)
CONNECT_SECONDS = 5.0
RESTART_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Worker:
    """Runs jobs one after the other until stopped. Can be started once."""

    def __init__(self) -> None:
        self._queue = registry.queue()
        # One thread, so that there is one connection of Django's and something to close it in.
        self._hands = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")
        self._app = procrastinate_app.build_app(queue=self._queue, threads=self._hands)
        self._stopping = threading.Event()
        self._ask_to_stop: Callable[[], object] | None = None
        self._thread = threading.Thread(target=self._live, name="jobs", daemon=True)

    def start(self) -> None:
        # The library tells about every job, with its arguments; tasks report their failures themselves.
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        logging.getLogger("procrastinate.worker").addFilter(_not_about_a_job)
        self._thread.start()
        for work in registry.rounds.values():
            threading.Thread(target=_go_round, args=(work, self._stopping), name=work.name, daemon=True).start()

    def stop(self, *, seconds: float) -> bool:
        """Take no further job and wait for the one in hand; False when it has not ended within `seconds`.

        A job that is cut off by the end of the process is taken back by another worker.
        """
        self._stopping.set()
        if self._ask_to_stop is not None:
            with contextlib.suppress(RuntimeError):  # that life has just ended, and the next one looks first
                self._ask_to_stop()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._one_life())
            except Exception as error:  # noqa: BLE001  (promised messages go out all the same)
                logger.warning("job worker starts again", extra={"error": repr(error.__cause__ or error)})
            self._stopping.wait(RESTART_SECONDS)
        self._hands.submit(connections.close_all)
        self._hands.shutdown()

    async def _one_life(self) -> None:
        """Run jobs until asked to stop; raises when that ends before."""
        pool = AsyncConnectionPool(
            kwargs=connector_params(),
            min_size=1,
            max_size=2,
            timeout=CONNECT_SECONDS,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        connector = procrastinate_app.LastingConnector()
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
            # A pooler in transaction mode accepts LISTEN and delivers nothing.
            listen_notify=conf.current().database.prepared_statements_enabled,
        )
        loop = asyncio.get_running_loop()
        self._ask_to_stop = lambda: loop.call_soon_threadsafe(worker.stop)
        if self._stopping.is_set():
            return
        sweeping = asyncio.create_task(stalled_jobs.sweep_for_ever(pool, queue=self._queue, stale_after=STALE_AFTER))
        # It ends by losing its connection, and then the worker has probably lost its own.
        sweeping.add_done_callback(lambda _: worker.stop())  # type: ignore[no-untyped-call]
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            while not sweeping.done():
                # Again and again: before Python 3.12 a cancellation that meets a result is lost.
                sweeping.cancel()
                await asyncio.wait({sweeping}, timeout=1)
            lost = None if sweeping.cancelled() else sweeping.exception()
        if not self._stopping.is_set():
            raise ConnectionError("ended by itself") from lost


def _not_about_a_job(record: logging.LogRecord) -> bool:
    return not str(getattr(record, "action", "")).startswith("job_")


def _go_round(work: registry.Round, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            work.function()
        except Exception:
            logger.exception("round of a worker failed", extra={"task": work.name})
        stopping.wait(work.pause().total_seconds())
