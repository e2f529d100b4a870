"""The cache of remote documents: age, failures, renewal and size."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta

import pytest

from authsvc.outgoing import remote_documents
from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.oidc import openid_connect
from tests.conftest import ChangeConfig


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Returns numbered documents, or fails."""

    def __init__(self) -> None:
        self.loads = 0
        self.fails = False

    def __call__(self, key: str) -> str:
        self.loads += 1
        if self.fails:
            raise InvalidProviderResponse("no")
        return f"{key}{self.loads}"


@pytest.fixture
def clock(auth_config: ChangeConfig) -> Clock:
    auth_config(federation={"discovery_max_age": timedelta(hours=1)})
    return Clock()


def test_an_old_document_is_fetched_again(clock: Clock) -> None:
    source = Source()
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    assert cache.get("a") == "a1"
    clock.now += 3599
    assert cache.get("a") == "a1"
    clock.now += 1
    assert cache.get("a") == "a2"


def test_a_stale_document_is_used_while_the_fetch_fails(clock: Clock) -> None:
    source = Source()
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    cache.get("a")
    source.fails = True
    clock.now += 3600
    assert [cache.get("a"), cache.get("a"), source.loads] == ["a1", "a1", 2]
    clock.now += remote_documents.RETRY_INTERVAL
    assert [cache.get("a"), source.loads] == ["a1", 3]
    source.fails = False
    clock.now += remote_documents.RETRY_INTERVAL
    assert cache.get("a") == "a4"


def test_a_failed_fetch_is_not_repeated_at_once(clock: Clock) -> None:
    source = Source()
    source.fails = True
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    for _ in range(3):
        with pytest.raises(InvalidProviderResponse, match="no"):
            cache.get("a")
    assert source.loads == 1
    source.fails = False
    clock.now += remote_documents.RETRY_INTERVAL
    assert cache.get("a") == "a2"


def test_a_renewal_fetches_at_most_once_per_interval(clock: Clock) -> None:
    source = Source()
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    first = cache.get("a")
    second = cache.renew("a", than=first)
    assert second == "a2"
    assert cache.renew("a", than=first) is second  # renewed by another caller
    assert cache.renew("a", than=second) is second  # within the interval
    clock.now += remote_documents.RETRY_INTERVAL
    assert cache.renew("a", than=second) == "a3"


def test_a_failed_renewal_keeps_the_document(clock: Clock) -> None:
    source = Source()
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    first = cache.get("a")
    source.fails = True
    assert cache.renew("a", than=first) is first
    assert cache.get("a") is first


def test_the_cache_is_bounded_and_evicts_failed_documents_first(clock: Clock) -> None:
    source = Source()
    cache = openid_connect.ProviderDocumentCache(source, clock=clock)
    keys = [str(number) for number in range(1000)]
    for key in keys:
        cache.get(key)
    source.fails = True

    def kept() -> list[str]:
        found = []
        for key in keys:
            with contextlib.suppress(InvalidProviderResponse):
                found.append(cache.get(key))
        return found

    # The first failure evicts the oldest document, and the next ones each other.
    before = kept()
    assert 200 < len(before) < 300
    assert kept() == before


class SourceWithDeadline(Source):
    """Checks the deadline, as every outgoing call does."""

    def __call__(self, key: str) -> str:
        deadline.remaining()
        return super().__call__(key)


def wait_for_deadline() -> None:
    with contextlib.suppress(InvalidProviderResponse):
        while deadline.remaining():
            time.sleep(0.01)


def test_a_stale_document_is_used_after_the_deadline(clock: Clock, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.05)})
    cache = openid_connect.ProviderDocumentCache(SourceWithDeadline(), clock=clock)
    cache.get("a")
    clock.now += 3600
    with deadline.shared():
        wait_for_deadline()
        assert cache.get("a") == "a1"
    assert cache.get("a") == "a2"


@pytest.mark.parametrize("is_renewed", [False, True], ids=["first", "renewed"])
def test_a_missed_deadline_is_not_stored_as_a_failure(is_renewed: bool, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.05)})
    is_slow = False

    def slow_clock() -> float:
        if is_slow and cache.entries["a"].lock.locked():
            wait_for_deadline()
        return 1000.0

    cache = openid_connect.ProviderDocumentCache(SourceWithDeadline(), clock=slow_clock)
    document = cache.get("a") if is_renewed else ""

    def get() -> str:
        return cache.renew("a", than=document) if is_renewed else cache.get("a")

    is_slow = True
    with deadline.shared(), pytest.raises(InvalidProviderResponse, match="timed out"):
        get()
    is_slow = False
    assert get() == ("a2" if is_renewed else "a1")
