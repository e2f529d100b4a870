"""Retries as seen by the server: number, keys and resulting errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from catalogclient import (
    AuthenticationTimeoutError,
    BearerAuth,
    CatalogError,
    ClientClosedError,
    CommitFailedError,
    CommitStateUnknownError,
    CustomAuth,
    NoSuchTableError,
    RequestTimeoutError,
    RetryPolicy,
    ServerError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Response, in_json

TABLE = {"metadata-location": "s3://b/0.json", "metadata": {"format-version": 2, "table-uuid": "u"}}
REQUEST: Any = {"name": "t", "schema": {"type": "struct", "fields": []}}
KNOWN = {"overrides": {"prefix": "p"}, "idempotency-key-lifetime": "PT30M"}
LOST = Response(raw=b"", close=True)


def keys(peer: HttpPeer) -> list[str | None]:
    return [request.headers["Idempotency-Key"] for request in peer.received if request.path != "/v1/config"]


def test_reads_are_repeated_until_the_server_responds(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503), LOST, in_json({"namespaces": [["a"]]}))
    assert len(connect().list_namespaces()) == 1
    assert len(peer.received) == 3


def test_reads_fail_after_four_attempts(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=500))
    with pytest.raises(ServerError) as caught:
        connect().list_namespaces()
    assert caught.value.attempts == len(peer.received) == 4
    assert caught.value.operation == "list_namespaces"
    assert caught.value.url == f"{peer.url}/v1/namespaces"
    assert caught.value.idempotency_key is None


def test_a_change_is_sent_once_without_advertised_keys(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=500))
    with pytest.raises(ServerError) as caught:
        connect().create_table("a", REQUEST)
    assert caught.value.attempts == len(peer.received) == 1
    assert caught.value.maybe_applied
    assert caught.value.idempotency_key == keys(peer)[0]


@pytest.mark.parametrize("first", [Response(status=500), LOST])
def test_a_change_is_repeated_with_its_key_if_keys_are_advertised(
    peer: HttpPeer, connect: Connect, first: Response
) -> None:
    peer.respond(in_json(KNOWN), path="/v1/config")
    peer.respond(first, in_json(TABLE))
    catalog = connect(warehouse="w")
    catalog.create_table("a", REQUEST)
    peer.respond(first, in_json(TABLE))
    catalog.update_table("a.t", updates=[])
    one, same, other, again = keys(peer)
    assert one == same != other == again


@pytest.mark.parametrize(
    "response",
    [
        *(Response(status=status) for status in (500, 502, 504, 524, 599)),
        Response(status=503, headers={"Retry-After": "1"}),
        LOST,
        in_json({"error": {"message": "m", "type": "CommitStateUnknownException", "code": 500}}, status=500),
    ],
)
def test_a_lost_commit_is_sent_once_and_unknown(peer: HttpPeer, connect: Connect, response: Response) -> None:
    peer.respond(response)
    catalog = connect()
    commits: list[Callable[[], object]] = [
        lambda: catalog.update_table("a.t", updates=[]),
        lambda: catalog.commit_transaction([{"identifier": {"namespace": ["a"], "name": "t"}}]),
        lambda: catalog.replace_view("a.v", {"updates": []}),
    ]
    for number, commit in enumerate(commits, start=1):
        with pytest.raises(CommitStateUnknownError) as caught:
            commit()
        assert len(peer.received) == number
        assert caught.value.is_commit_state_unknown
        assert caught.value.maybe_applied
        assert caught.value.idempotency_key == keys(peer)[-1]


def test_a_conflict_is_not_repeated(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"error": {"message": "m", "type": "CommitFailedException", "code": 409}}, status=409))
    with pytest.raises(CommitFailedError) as caught:
        connect().update_table("a.t", updates=[])
    assert caught.value.is_conflict
    assert len(peer.received) == 1


def test_a_commit_is_repeated_after_429(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=429, headers={"Retry-After": "1"}), in_json(TABLE))
    began_at = time.monotonic()
    connect().update_table("a.t", updates=[])
    assert time.monotonic() - began_at >= 1
    assert len(set(keys(peer))) == 1
    assert len(peer.received) == 2


def test_a_404_after_a_lost_drop_is_maybe_applied(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json(KNOWN), path="/v1/config")
    peer.respond(LOST, Response(status=404))
    with pytest.raises(NoSuchTableError) as caught:
        connect(warehouse="w").drop_table("a.t")
    assert caught.value.maybe_applied
    assert caught.value.attempts == 2


def test_reports_are_sent_once(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503))
    with pytest.raises(ServiceUnavailableError):
        connect().report_metrics("a.t", {"report-type": "commit-report"})  # type: ignore[arg-type]
    assert len(peer.received) == 1


def test_a_call_ends_at_its_deadline(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503))
    began_at = time.monotonic()
    # It ends between two attempts, or within one on a busy machine.
    with pytest.raises((ServiceUnavailableError, RequestTimeoutError)) as caught:
        connect(total_timeout=1.0, retry=RetryPolicy(max_attempts=1_000, backoff_max=0.2)).list_namespaces()
    assert time.monotonic() - began_at < 20
    assert caught.value.attempts > 2


def test_without_policy_there_is_one_attempt(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503))
    with pytest.raises(ServiceUnavailableError):
        connect(retry=None).list_namespaces()
    assert len(peer.received) == 1


@pytest.mark.parametrize("status", [401, 419])
def test_fixed_credentials_are_not_repeated_after_401(peer: HttpPeer, connect: Connect, status: int) -> None:
    peer.respond(Response(status=status))
    with pytest.raises(UnauthorizedError) as caught:
        connect(auth=BearerAuth("t0k")).create_namespace("a")
    assert len(peer.received) == 1
    assert caught.value.is_authentication_timeout is (status == 419)
    assert isinstance(caught.value, AuthenticationTimeoutError) is (status == 419)


@pytest.mark.parametrize("status", [401, 419])
def test_refreshed_credentials_are_used_once_with_the_same_key(peer: HttpPeer, connect: Connect, status: int) -> None:
    tokens = iter(["old", "new", "new", "newer", "newest", "more"])
    peer.respond(Response(status=status), in_json(TABLE))
    connect(auth=BearerAuth(lambda: next(tokens)), retry=None).update_table("a.t", updates=[])
    assert [request.headers["Authorization"] for request in peer.received] == ["Bearer old", "Bearer new"]
    assert len(set(keys(peer))) == 1
    peer.respond(Response(status=status))
    with pytest.raises(UnauthorizedError) as caught:
        connect(auth=BearerAuth(lambda: next(tokens))).update_table("a.t", updates=[])
    assert caught.value.attempts == 2


def test_403_does_not_refresh_credentials(peer: HttpPeer, connect: Connect) -> None:
    tokens = iter(["old", "new"])
    peer.respond(Response(status=403))
    with pytest.raises(CatalogError):
        connect(auth=BearerAuth(lambda: next(tokens))).list_namespaces()
    assert len(peer.received) == 1


def test_credentials_are_added_to_every_attempt(peer: HttpPeer, connect: Connect) -> None:
    calls: list[int] = []

    def fields() -> dict[str, str]:
        calls.append(1)
        return {"A": f"b{len(calls)}"}

    peer.respond(Response(status=503), in_json({}))
    connect(auth=CustomAuth(fields)).list_namespaces()
    assert [request.headers["A"] for request in peer.received] == ["b1", "b2"]


def test_closing_ends_a_pause(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(status=503, headers={"Retry-After": "50"}))
    catalog = connect()
    closing = threading.Timer(0.3, catalog.close)
    closing.start()
    began_at = time.monotonic()
    with pytest.raises(ClientClosedError) as caught:
        catalog.list_namespaces()
    assert time.monotonic() - began_at < 20
    assert isinstance(caught.value.__cause__, ServiceUnavailableError)
    closing.join()
