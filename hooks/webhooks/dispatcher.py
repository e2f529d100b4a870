"""Delivers events: a thread of each worker, with one database connection and a few threads that send.

Any number of workers share the deliveries. A lease tells the others which deliveries a worker attempts; it ends by
itself if the worker is killed, and the attempt is repeated.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

from django.db import Error, connection, transaction
from django.utils import timezone

from authsvc import conf
from authsvc.observability import metrics
from authsvc.security.encryption import DecryptionError
from hooks.models import DisabledReason
from hooks.webhooks import queries, sending, subscriptions
from hooks.webhooks.queries import Lease, StoredResult
from hooks.webhooks.sending import GONE, AttemptResult, WebhookMessage
from hooks.webhooks.subscriptions import CachedEndpoint

POLL_SECONDS = 1.0
"""Time between two searches for new events and due deliveries."""
FAN_OUT_SIZE = 500
_MAX_FAN_OUTS = 10
"""Batches of new events per search, so that results wait for a fraction of a second at most."""
_CANCEL_SIZE = 2_000
_MAX_RESULTS = 100
MAX_PER_ENDPOINT = 2
_SLOW = timedelta(seconds=1)
_LEASE_MARGIN = timedelta(seconds=20)
"""The time to store the result of an attempt, and the difference of clocks."""

logger = logging.getLogger(__name__)


class Dispatcher:
    """`run` serves one thread. `step` does the same once, without a pause, for commands and tests."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._finished: queue.SimpleQueue[tuple[Lease, AttemptResult]] = queue.SimpleQueue()
        self._results: list[tuple[Lease, AttemptResult]] = []
        """Results that are not stored yet."""
        self._in_flight: Counter[UUID] = Counter()
        self._slow: set[UUID] = set()
        """Endpoints whose last attempt failed or was slow."""
        self._endpoints: Mapping[UUID, CachedEndpoint] = {}
        self.searched_at = float("-inf")
        self._searches = 0

    def run(self, stopping: threading.Event) -> None:
        """Deliver until `stopping` is set, then wait for the attempts under way and store their results."""
        try:
            while not stopping.is_set():
                self._run_once(stopping)
            while self._in_flight:
                self.collect(seconds=None)
            with contextlib.suppress(Error):  # the lease ends, and another worker repeats the attempts
                self._store_results()
        finally:
            if self._threads is not None:
                self._threads.shutdown()
            connection.close()

    def _run_once(self, stopping: threading.Event) -> None:
        with conf.keep():
            if not (conf.current().webhooks.enabled or self._in_flight or self._results):
                connection.close()
                stopping.wait(POLL_SECONDS)
                return
            try:
                self.step()
            except Error as error:
                # Results are kept, and stored when the database answers.
                logger.warning("webhooks cannot use the database", extra={"error": type(error).__name__})
                connection.close()
                stopping.wait(POLL_SECONDS)
        pause = max(0.0, self.searched_at + POLL_SECONDS - time.monotonic())
        if self._in_flight:
            self.collect(seconds=pause)
        else:
            stopping.wait(pause)

    def step(self) -> None:
        """Store results, create the deliveries of new events if it is time to, and start due deliveries."""
        self._store_results()
        if not conf.current().webhooks.enabled:
            return
        if time.monotonic() - self.searched_at >= POLL_SECONDS:
            self.searched_at = time.monotonic()
            self._search()
        self._start_deliveries()

    def finish(self) -> None:
        """Wait for the attempts under way and store their results."""
        while self._in_flight:
            self.collect(seconds=None)
        self._store_results()

    def _search(self) -> None:
        self._endpoints = {endpoint.id: endpoint for endpoint in subscriptions.cache.get()}
        for _ in range(_MAX_FAN_OUTS):
            if not queries.has_new_events():
                break
            with transaction.atomic():
                count = queries.fan_out(limit=FAN_OUT_SIZE, at=queries.current_time())
            if count < FAN_OUT_SIZE:
                break
        for endpoint in self._endpoints.values():
            if endpoint.is_disabled:
                with transaction.atomic():
                    queries.cancel_deliveries(endpoint.id, limit=_CANCEL_SIZE)

    def _start_deliveries(self) -> None:
        config = conf.current().webhooks
        free = config.concurrency - self._in_flight.total()
        limits = self._limits(concurrency=config.concurrency)
        if free <= 0 or not limits:
            return
        at = queries.current_time()
        leases = queries.lease(limits=limits, limit=free, at=at, duration=config.timeout + _LEASE_MARGIN)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(thread_name_prefix="webhook", max_workers=64)
        for lease in leases:
            self._in_flight[lease.endpoint_id] += 1
            self._threads.submit(self._attempt, lease, self._endpoints[lease.endpoint_id], config)

    def _limits(self, *, concurrency: int) -> Mapping[UUID, int]:
        """Endpoint → the attempts that may begin now. Each search begins with another endpoint.

        Endpoints that are slow or fail share half of the attempts, with one each, so that they do not delay others.
        """
        slow_in_flight = sum(count for endpoint_id, count in self._in_flight.items() if endpoint_id in self._slow)
        free_for_slow = max(1, concurrency // 2) - slow_in_flight
        limits: dict[UUID, int] = {}
        active = [endpoint for endpoint in self._endpoints.values() if not endpoint.is_disabled]
        self._searches += 1
        for number in range(len(active)):
            endpoint = active[(number + self._searches) % len(active)]
            in_flight = self._in_flight[endpoint.id]
            if endpoint.id in self._slow:
                if not in_flight and free_for_slow > 0:
                    limits[endpoint.id] = 1
                    free_for_slow -= 1
            elif in_flight < MAX_PER_ENDPOINT:
                limits[endpoint.id] = MAX_PER_ENDPOINT - in_flight
        return limits

    def _attempt(self, lease: Lease, endpoint: CachedEndpoint, config: conf.Webhooks) -> None:
        """Run in a thread that sends; use no database connection."""
        started_at = timezone.now()
        try:
            message = WebhookMessage(
                event_id=lease.event_id, attempt=lease.attempt, url=lease.url, secrets=endpoint.secrets(),
                body=lease.body,
            )  # fmt: skip
            public_only = not config.allow_private_networks
            result = sending.attempt(message, timeout=config.timeout, public_only=public_only)
        except DecryptionError:
            logger.exception("secret of a webhook endpoint cannot be read", extra={"endpoint_id": str(endpoint.id)})
            error = "the secret of the endpoint cannot be read"
            result = AttemptResult(started_at=started_at, duration=timedelta(), status=None, error=error)
        except Exception:
            logger.exception("webhook delivery failed", extra={"delivery_id": str(lease.id)})
            result = AttemptResult(started_at=started_at, duration=timedelta(), status=None, error="internal error")
        self._finished.put((lease, result))

    def collect(self, *, seconds: float | None) -> None:
        """Wait until an attempt has ended, and take the results of all that have."""
        with contextlib.suppress(queue.Empty):
            self._take(self._finished.get(timeout=seconds))
            while True:
                self._take(self._finished.get_nowait())

    def _take(self, finished: tuple[Lease, AttemptResult]) -> None:
        lease, result = finished
        self._in_flight[lease.endpoint_id] -= 1
        self._in_flight += Counter()  # without endpoints at zero
        if result.is_success and result.duration < _SLOW:
            self._slow.discard(lease.endpoint_id)
        else:
            self._slow.add(lease.endpoint_id)
        self._results.append(finished)

    def _store_results(self) -> None:
        while self._results:
            batch = self._results[:_MAX_RESULTS]
            at = queries.current_time()
            stored = [_stored_result(lease, result, at=at) for lease, result in batch]
            with transaction.atomic():
                queries.store_results(stored, at=at)
            del self._results[: len(batch)]
            for (lease, result), row in zip(batch, stored, strict=True):
                _count(lease, result, outcome=row.outcome)
            self._update_endpoints(batch)

    def _update_endpoints(self, results: list[tuple[Lease, AttemptResult]]) -> None:
        """Store since when endpoints fail, and disable those that are gone or have failed for too long."""
        at, limit = timezone.now(), conf.current().webhooks.disable_after
        succeeded = {lease.endpoint_id for lease, result in results if result.is_success}
        failed = {lease.endpoint_id for lease, _ in results} - succeeded
        known = self._endpoints
        # Another worker may have stored that an endpoint fails since this one has read it.
        changed = bool(succeeded) and queries.clear_failing(succeeded)
        if failing := [id_ for id_ in failed if id_ in known and known[id_].failing_since is None]:
            queries.mark_failing(failing, at=at)
            changed = True
        for endpoint_id in failed:
            since = known[endpoint_id].failing_since if endpoint_id in known else None
            if limit and since is not None and at - since >= limit:
                changed |= _disable(endpoint_id, reason=DisabledReason.FAILING, failing_since=at - limit)
        for endpoint_id, url in {(lease.endpoint_id, lease.url) for lease, result in results if result.status == GONE}:
            changed |= _disable(endpoint_id, reason=DisabledReason.GONE, url=url)
        if changed:
            subscriptions.cache.clear()
            self._endpoints = {endpoint.id: endpoint for endpoint in subscriptions.cache.get()}


def _stored_result(lease: Lease, result: AttemptResult, *, at: datetime) -> StoredResult:
    """The result to store, with the time of the next attempt by the present schedule."""
    schedule = conf.current().webhooks.retry_schedule
    next_at = sending.next_attempt_at(result, scheduled_attempt=lease.scheduled_attempt, schedule=schedule, at=at)
    return StoredResult(
        id=lease.id,
        attempt=lease.attempt,
        outcome=sending.delivery_status(result, next_attempt_at=next_at),
        next_attempt_at=next_at,
        started_at=result.started_at,
        duration_ms=result.duration // timedelta(milliseconds=1),
        status=result.status,
        error=result.error or None,
        head=result.head,
    )


def _disable(
    endpoint_id: UUID, *, reason: DisabledReason, url: str | None = None, failing_since: datetime | None = None
) -> bool:
    is_disabled = queries.disable(endpoint_id, reason=reason, at=timezone.now(), url=url, failing_since=failing_since)
    if is_disabled:
        metrics.WEBHOOK_ENDPOINTS_DISABLED.labels(reason.value).inc()
        logger.error("webhook endpoint disabled", extra={"endpoint_id": str(endpoint_id), "reason": reason.value})
    return is_disabled


def _count(lease: Lease, result: AttemptResult, *, outcome: str) -> None:
    metrics.WEBHOOK_DELIVERIES.labels(lease.type, "retry" if outcome == "pending" else outcome).inc()
    metrics.WEBHOOK_DELIVERY_SECONDS.observe(result.duration.total_seconds())
