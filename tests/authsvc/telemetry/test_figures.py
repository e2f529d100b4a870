"""Figures noted down and written at once are those the library would have written one by one."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import prometheus_client

from authsvc.observability import metrics
from authsvc.observability.telemetry import figures

HISTOGRAM = metrics.REQUEST_SECONDS
LABELS = ("GET", "200", "/user")


def samples(family: object) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
    assert isinstance(family, prometheus_client.metrics.MetricWrapperBase)
    return {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for metric in family.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


def test_a_histogram_has_the_buckets_of_each_observation() -> None:
    kept = figures.Figures()
    names = [label.replace(".", "_") for label in HISTOGRAM.labels]
    registry = prometheus_client.CollectorRegistry()
    alone = prometheus_client.Histogram(
        "http_server_request_duration_seconds", HISTOGRAM.help, names, registry=registry, buckets=HISTOGRAM.buckets
    )
    edges = [(bound - 2**-20, bound, bound + 2**-20) for bound in HISTOGRAM.buckets]
    # Halves, quarters and so on, whose sum does not depend on the order.
    for value in itertools.chain(*edges, (0.0, 0.5, 1e6)):
        alone.labels(*LABELS).observe(round(value * 2**20) / 2**20)
        kept.record((HISTOGRAM, LABELS, round(value * 2**20) / 2**20))
    kept.write()
    assert samples(dict(kept.families())[HISTOGRAM]) == samples(alone)


def test_nothing_noted_is_lost_or_written_twice_when_many_threads_note_and_write() -> None:
    kept = figures.Figures()

    def note(number: int) -> None:
        for _ in range(2000):
            kept.record((metrics.REFRESHES, ("succeeded",), 1))
            kept.record((metrics.HASH_WAIT_SECONDS, (), number))
        kept.write()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(note, range(8)))
    families = dict(kept.families())
    assert ("auth_token_refreshes_total", (("outcome", "succeeded"),), 16_000.0) in samples(families[metrics.REFRESHES])
    waits = {(name, labels): value for name, labels, value in samples(families[metrics.HASH_WAIT_SECONDS])}
    assert waits["auth_hash_pool_wait_seconds_count", ()] == 16_000
    assert waits["auth_hash_pool_wait_seconds_sum", ()] == sum(2000 * number for number in range(8))


def test_what_is_noted_is_written_by_itself_before_it_is_much() -> None:
    kept = figures.Figures()
    for _ in range(5000):
        kept.record((metrics.REFRESHES, ("succeeded",), 1))
    (written,) = (
        value for name, _, value in samples(dict(kept.families())[metrics.REFRESHES]) if name.endswith("_total")
    )
    assert 0 < 5000 - written < 2000
