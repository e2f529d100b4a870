"""Concurrent requests for a remote document."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.oidc import openid_connect
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import HttpPeer, Response, in_json
from tests.fakes.issuer import Issuer
from tests.oauthproviders.oidc.test_remote_documents import Clock


@pytest.fixture
def issuer_peer(peer: HttpPeer) -> Issuer:
    return Issuer(peer)


def test_concurrent_requests_share_a_response(issuer_peer: Issuer) -> None:
    document = in_json({"issuer": issuer_peer.name})
    issuer_peer.server.respond(
        Response(headers=document.headers, body=document.body, delay=0.3),
        Response(status=500),
        path=issuer_peer.discovery_path,
    )
    issuers: list[str] = []
    threads = [
        threading.Thread(target=lambda: issuers.append(openid_connect.discover(issuer_peer.name).issuer))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert issuers == [issuer_peer.name] * 8
    assert issuer_peer.request_count(issuer_peer.discovery_path) == 1


def test_concurrent_requests_share_a_failure(issuer_peer: Issuer) -> None:
    issuer_peer.server.respond(Response(status=500, delay=0.3), path=issuer_peer.discovery_path)
    errors: list[str] = []

    def discover() -> None:
        with pytest.raises(ProviderUnavailable) as caught:
            openid_connect.discover(issuer_peer.name)
        errors.append(str(caught.value))

    threads = [threading.Thread(target=discover) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 8
    assert issuer_peer.request_count(issuer_peer.discovery_path) == 1


def test_a_stale_document_is_used_during_a_fetch(auth_config: ChangeConfig) -> None:
    auth_config(federation={"discovery_max_age": timedelta(hours=1)})
    clock = Clock()
    fetching, go_on = threading.Event(), threading.Event()

    def load(key: str) -> str:
        if go_on.is_set():
            return "new"
        if loaded:
            fetching.set()
            assert go_on.wait(10)
            return "new"
        loaded.append(key)
        return "old"

    loaded: list[str] = []
    cache = openid_connect.ProviderDocumentCache(load, clock=clock)
    cache.get("a")
    clock.now += 3600
    thread = threading.Thread(target=cache.get, args=("a",))
    thread.start()
    assert fetching.wait(10)
    assert cache.get("a") == "old"
    go_on.set()
    thread.join()
    assert cache.get("a") == "new"


@contextmanager
def pending_fetch(
    cache: openid_connect.ProviderDocumentCache[str, str], key: str, go_on: threading.Event
) -> Iterator[None]:
    """Another thread fetches the document until `go_on` is set."""
    thread = threading.Thread(target=cache.get, args=(key,))
    thread.start()
    try:
        yield
    finally:
        go_on.set()
        thread.join()


def test_the_wait_for_the_fetch_of_another_thread_ends_at_the_deadline(auth_config: ChangeConfig) -> None:
    fetching, go_on = threading.Event(), threading.Event()

    def load(key: str) -> str:
        fetching.set()
        assert go_on.wait(10)
        return key

    cache = openid_connect.ProviderDocumentCache(load)
    with pending_fetch(cache, "a", go_on):
        assert fetching.wait(10)
        auth_config(api={"max_request_duration": timedelta(seconds=0.3)})
        with deadline.shared(), pytest.raises(InvalidProviderResponse, match="timed out"):
            cache.get("a")
    assert cache.get("a") == "a"
