"""Hashing and breach look-ups in several threads."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.test import override_settings

from accounts.passwords import breaches, hashing
from tests.accounts.passwords.test_breaches import KNOWN, PWNED, _enabled, service
from tests.fakes.http_peer import MockedServer, Response

__all__ = ["_enabled", "service"]  # fixtures


class CountingHasher(hashing.Argon2id):
    """A cheap hasher that records the largest number of concurrent hashes."""

    memory_cost = 64
    time_cost = 1

    concurrent = 0
    max_concurrent = 0
    _lock = threading.Lock()

    def encode(self, password: str, salt: str) -> str:
        counts = type(self)
        with counts._lock:
            counts.concurrent += 1
            counts.max_concurrent = max(counts.max_concurrent, counts.concurrent)
        threading.Event().wait(0.005)
        with counts._lock:
            counts.concurrent -= 1
        return super().encode(password, salt)


@override_settings(PASSWORD_HASHERS=[f"{__name__}.CountingHasher"])
def test_concurrent_hashes_are_limited_to_number_of_cores() -> None:
    with ThreadPoolExecutor(30) as executor:
        list(executor.map(hashing.hash_password, ["correct horse"] * 30))
    assert 0 < CountingHasher.max_concurrent <= (os.cpu_count() or 1)


def test_concurrent_look_ups_of_one_range_share_call(service: MockedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, all_wait, result = [], threading.Event(), Future.result

    def count_and_wait(call: Future[Any], timeout: float | None = None) -> Any:
        if timeout is not None:  # a look-up, not the test
            waiting.append(call)
            if len(waiting) == 20:
                all_wait.set()
        return result(call, timeout)

    monkeypatch.setattr(Future, "result", count_and_wait)
    service.respond(Response(body=KNOWN.body, before=all_wait.wait))
    with ThreadPoolExecutor(20) as executor:
        assert list(executor.map(breaches.is_breached, [PWNED] * 20)) == [True] * 20
    assert len(service.received) == 1
    assert breaches.is_breached(PWNED)
    assert len(service.received) == 2


def test_timed_out_look_up_continues_for_other_requests(service: MockedServer) -> None:
    has_timed_out = threading.Event()
    service.respond(Response(body=KNOWN.body, before=has_timed_out.wait))
    assert not breaches.is_known_breached(PWNED)
    with ThreadPoolExecutor(1) as executor:
        other = executor.submit(breaches.is_breached, PWNED)
        has_timed_out.set()
        assert other.result()
    assert len(service.received) == 1
