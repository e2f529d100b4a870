"""AsyncRestCatalog: the same operations, errors, retries and deadlines with asyncio."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import gzip
import inspect
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from catalogclient import (
    AsyncRestCatalog,
    BearerAuth,
    CatalogError,
    ClientClosedError,
    CommitStateUnknownError,
    ConnectError,
    InvalidArgumentError,
    InvalidResponseError,
    NetworkError,
    NoSuchTableError,
    RequestTimeoutError,
    RestCatalog,
    RetryPolicy,
    ServerError,
    TlsError,
    UnauthorizedError,
    UnexpectedRedirectError,
    changes,
    updates,
)
from catalogclient.auth import _oauth2
from tests.catalogclient import certificates
from tests.catalogclient.conftest import AT_ONCE
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import CatalogServer
from tests.fakes.http_peer import HttpPeer, Response, in_json, redirect

METADATA = {
    "format-version": 2,
    "table-uuid": "u",
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "int", "required": True}]}
    ],
}
TABLE = {"metadata-location": "s3://b/0.json", "metadata": METADATA}
BLOCKING_ONLY = {"close"}
ASYNC_ONLY = {"aclose"}


@asynccontextmanager
async def connect(peer: HttpPeer, **options: Any) -> AsyncIterator[AsyncRestCatalog]:
    async with AsyncRestCatalog(peer.url, **{"retry": AT_ONCE, "config_mode": "never", **options}) as catalog:
        yield catalog


def run(peer: HttpPeer, use: Callable[[AsyncRestCatalog], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with connect(peer, **options) as catalog:
            return await use(catalog)

    return asyncio.run(main())


def methods(kind: type) -> dict[str, Any]:
    return {
        name: getattr(kind, name) for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


def test_both_clients_have_the_same_operations_and_parameters() -> None:
    blocking, asynchronous = methods(RestCatalog), methods(AsyncRestCatalog)
    assert set(blocking) - BLOCKING_ONLY == set(asynchronous) - ASYNC_ONLY
    for name in set(blocking) - BLOCKING_ONLY:
        blocking_parameters, async_parameters = (
            inspect.signature(method).parameters for method in (blocking[name], asynchronous[name])
        )
        assert list(blocking_parameters) == list(async_parameters), name
        assert blocking[name].__doc__, name


def test_an_operation_returns_its_result(peer: HttpPeer) -> None:
    peer.respond(in_json({"overrides": {"prefix": "p", "namespace-separator": "%2E"}}), path="/v1/config")
    peer.respond(in_json(TABLE))
    result = run(peer, lambda catalog: catalog.load_table(("a", "b", "c.d")), config_mode="auto")
    assert result == METADATA
    assert [request.target for request in peer.received] == ["/v1/config", "/v1/p/namespaces/a%2Eb/tables/c.d"]
    assert "httpx/" in peer.received[1].headers["User-Agent"]


def test_lists_are_asynchronous_generators(peer: HttpPeer) -> None:
    peer.respond(in_json({"namespaces": [["a"]], "next-page-token": "1"}), in_json({"namespaces": [["b"]]}))

    async def use(catalog: AsyncRestCatalog) -> list[str]:
        return [str(namespace) async for namespace in catalog.iter_namespaces(page_size=1)]

    assert run(peer, use) == ["a", "b"]


def test_scans_are_asynchronous_iterators(peer: HttpPeer) -> None:
    tasks = [{"data-file": {"file-path": "f0"}}, {"data-file": {"file-path": "f1"}}]
    peer.respond(in_json({"status": "completed", "plan-id": "p", "file-scan-tasks": tasks, "plan-tasks": ["k"]}))

    async def use(catalog: AsyncRestCatalog) -> str:
        async with catalog.plan_scan("a.t") as scan:
            async for task, _ in scan:
                return task["data-file"]["file-path"]
        return ""

    assert run(peer, use) == "f0"
    assert [request.method for request in peer.received] == ["POST", "DELETE"]


def test_a_commit_is_repeated_after_a_conflict(peer: HttpPeer) -> None:
    peer.respond(in_json(TABLE), Response(status=409), in_json(TABLE))
    result = run(peer, lambda catalog: catalog.commit("a.t", changes.add_column("x", "int")))
    assert result.metadata_location == "s3://b/0.json"
    assert [request.method for request in peer.received] == ["GET", "POST", "GET", "POST"]


def test_retries_and_keys_are_the_same(peer: HttpPeer) -> None:
    peer.respond(in_json({"idempotency-key-lifetime": "PT5M"}), path="/v1/config")
    peer.respond(Response(status=503), Response(raw=b"", close=True), in_json(TABLE))
    run(peer, lambda catalog: catalog.update_table("a.t", updates=[]), config_mode="auto")
    keys = [request.headers["Idempotency-Key"] for request in peer.received if request.method == "POST"]
    assert len(keys) == 3
    assert len(set(keys)) == 1


CUT = Response(raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", close=True)
FAILURES: list[tuple[Response, type[CatalogError]]] = [
    (Response(status=404), NoSuchTableError),
    (Response(status=500), ServerError),
    (Response(raw=b"", close=True), NetworkError),
    (CUT, NetworkError),
    (Response(raw=b"nonsense\r\n\r\n", close=True), NetworkError),
    (Response(headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}, body=b"{}"), NetworkError),
    (Response(raw=b"HTTP/1.1 101 Strange\r\n\r\n", close=True), NetworkError),
    (Response(hang=True), RequestTimeoutError),
    (redirect("http://other.example/x"), UnexpectedRedirectError),
    (Response(body=b"[]", headers={"Content-Type": "application/json"}), InvalidResponseError),
    (in_json({"metadata": {"x": "y" * 10_000}}), InvalidResponseError),
    (
        Response(headers={"Content-Encoding": "gzip, gzip"}, body=gzip.compress(gzip.compress(in_json(TABLE).body))),
        InvalidResponseError,
    ),
]


@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_failures_are_the_same_errors(peer: HttpPeer, number: int) -> None:
    response, kind = FAILURES[number]
    peer.respond(response)
    with pytest.raises(kind):
        run(peer, lambda catalog: catalog.load_table("a.t"), timeout=0.5, retry=None, max_response_bytes=5_000)


@pytest.mark.parametrize("number", [2, 3, 4, 7])
def test_a_lost_response_leaves_the_commit_unknown(peer: HttpPeer, number: int) -> None:
    peer.respond(FAILURES[number][0])
    with pytest.raises(CommitStateUnknownError):
        run(peer, lambda catalog: catalog.update_table("a.t", updates=[]), timeout=0.5)
    assert len(peer.received) == 1


def test_a_refused_connection_is_a_connect_error() -> None:
    async def main() -> None:
        async with AsyncRestCatalog("http://127.0.0.1:9", retry=None) as catalog:
            await catalog.list_namespaces()

    with pytest.raises(ConnectError) as caught:
        asyncio.run(main())
    assert not caught.value.sent


def test_compressed_responses(peer: HttpPeer) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    peer.respond(Response(headers=headers, body=gzip.compress(json.dumps(TABLE).encode())))
    assert run(peer, lambda catalog: catalog.load_table("a.t")) == METADATA


@pytest.mark.parametrize("path", ["/v1/config", "/token", "/v1/namespaces"])
def test_the_deadline_covers_all_requests_of_a_call(peer: HttpPeer, path: str) -> None:
    peer.respond(in_json({}), path="/v1/config")
    peer.respond(in_json({"access_token": "t"}), path="/token")
    peer.respond(Response(hang=True), path=path)
    auth = {"type": "oauth2", "client_secret": "s", "token_url": f"{peer.url}/token"}
    with pytest.raises(RequestTimeoutError):
        run(
            peer,
            lambda catalog: catalog.list_namespaces(),
            auth=auth,
            config_mode="auto",
            timeout=None,
            total_timeout=0.5,
            retry=None,
        )


def test_tasks_share_one_configuration_and_one_token(peer: HttpPeer) -> None:
    peer.respond(Response(delay=0.2, headers={"Content-Type": "application/json"}, body=b"{}"), path="/v1/config")
    peer.respond(in_json({"access_token": "t", "expires_in": 3600}), path="/token")
    peer.respond(in_json(TABLE))
    auth = {"type": "oauth2", "client_secret": "s", "token_url": f"{peer.url}/token"}

    async def use(catalog: AsyncRestCatalog) -> int:
        return len(await asyncio.gather(*(catalog.load_table("a.t") for _ in range(64))))

    assert run(peer, use, auth=auth, config_mode="auto") == 64
    paths = [request.path for request in peer.received]
    assert (paths.count("/v1/config"), paths.count("/token")) == (1, 1)
    assert {request.headers["Authorization"] for request in peer.received if request.path != "/token"} == {"Bearer t"}


def test_a_rejected_token_is_renewed_once(peer: HttpPeer) -> None:
    peer.respond(in_json({"access_token": "t1"}), in_json({"access_token": "t2"}), path="/token")
    peer.respond(Response(status=401), in_json(TABLE))
    auth = {"type": "oauth2", "client_secret": "s", "token_url": f"{peer.url}/token"}
    run(peer, lambda catalog: catalog.load_table("a.t"), auth=auth)
    sent = [request.headers["Authorization"] for request in peer.received if request.path != "/token"]
    assert sent == ["Bearer t1", "Bearer t2"]


def test_credentials_are_renewed_in_a_worker_thread(peer: HttpPeer) -> None:
    class Recorder(BearerAuth):
        def refresh(self, *, reason: int) -> bool:
            threads.append(threading.current_thread())
            return False

    threads: list[threading.Thread] = []
    peer.respond(Response(status=401))
    with pytest.raises(UnauthorizedError):
        run(peer, lambda catalog: catalog.load_table("a.t"), auth=Recorder("t"))
    (thread,) = threads
    assert thread is not threading.current_thread()


def test_a_token_endpoint_that_hangs_does_not_stop_calls_with_a_valid_token(
    peer: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_oauth2, "_EARLY_RENEWAL_TIMEOUT", 0.3)
    peer.respond(in_json({"access_token": "t1", "expires_in": 3600}), Response(hang=True), path="/token")
    peer.respond(in_json(TABLE))
    auth = {"type": "oauth2", "client_secret": "s", "token_url": f"{peer.url}/token"}

    async def use(catalog: AsyncRestCatalog) -> None:
        await catalog.load_table("a.t")
        manager: Any = catalog._auth
        manager._known = dataclasses.replace(manager._known, refresh_at=time.monotonic())
        await asyncio.gather(*(catalog.load_table("a.t") for _ in range(5)))
        await catalog.load_table("a.t")

    run(peer, use, auth=auth)
    assert [request.path for request in peer.received].count("/token") == 2


def test_a_fixed_token_needs_no_worker_thread() -> None:
    assert not BearerAuth("t").may_block()
    assert BearerAuth(lambda: "t").may_block()


def test_cancellation_leaves_no_used_connection(peer: HttpPeer) -> None:
    peer.respond(Response(hang=True), in_json(TABLE))

    async def use(catalog: AsyncRestCatalog) -> Any:
        task = asyncio.create_task(catalog.load_table("a.t"))
        await asyncio.to_thread(peer.wait_for_requests, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await catalog.load_table("a.t")

    assert run(peer, use) == METADATA
    first, second = peer.received
    assert first.connection != second.connection


def test_the_cancellation_of_one_task_does_not_end_the_configuration_request_of_others(peer: HttpPeer) -> None:
    peer.respond(Response(hang=True), in_json({}), path="/v1/config")
    peer.respond(in_json(TABLE))

    async def use(catalog: AsyncRestCatalog) -> Any:
        leader = asyncio.create_task(catalog.load_table("a.t"))
        await asyncio.to_thread(peer.wait_for_requests, 1)
        follower = asyncio.create_task(catalog.load_table("a.t"))
        await asyncio.sleep(0.05)
        leader.cancel()
        return await follower

    assert run(peer, use, config_mode="auto") == METADATA


def test_a_request_that_ends_after_closing_leaves_no_open_connection(peer: HttpPeer) -> None:
    peer.respond(Response(delay=0.3, headers={"Content-Type": "application/json"}, body=b"{}"))

    async def use(catalog: AsyncRestCatalog) -> None:
        task = asyncio.create_task(catalog.list_namespaces())
        await asyncio.to_thread(peer.wait_for_requests, 1)
        await catalog.aclose()
        await task
        # An open connection would be reported as a ResourceWarning.
        del task
        gc.collect()

    run(peer, use)


def test_closing_ends_delays(peer: HttpPeer) -> None:
    peer.respond(Response(status=503))

    async def use(catalog: AsyncRestCatalog) -> None:
        task = asyncio.create_task(catalog.list_namespaces())
        await asyncio.to_thread(peer.wait_for_requests, 1)
        await asyncio.sleep(0.05)
        await catalog.aclose()
        with pytest.raises(ClientClosedError):
            await task
        with pytest.raises(ClientClosedError):
            await catalog.list_namespaces()

    run(peer, use, retry=RetryPolicy(backoff_base=60, backoff_max=60))


def test_a_sibling_shares_connections_and_configuration(peer: HttpPeer) -> None:
    peer.respond(in_json({}))

    async def use(catalog: AsyncRestCatalog) -> None:
        await catalog.list_namespaces()
        async with catalog.with_auth(BearerAuth("t")) as sibling:
            await sibling.list_namespaces()
        await catalog.list_namespaces()

    run(peer, use, config_mode="auto")
    assert [request.path for request in peer.received] == ["/v1/config", *["/v1/namespaces"] * 3]
    assert len({request.connection for request in peer.received}) == 1


# The first event loop ends without closing its connections.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_catalog_works_in_a_second_event_loop(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    catalog = AsyncRestCatalog(peer.url)
    asyncio.run(_list(catalog))
    asyncio.run(_list(catalog))
    asyncio.run(catalog.aclose())
    gc.collect()
    assert [request.path for request in peer.received] == ["/v1/config", "/v1/namespaces", "/v1/namespaces"]


async def _list(catalog: AsyncRestCatalog) -> None:
    await catalog.list_namespaces()


def test_proxies_and_certificates(peer: HttpPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.respond(in_json({}))

    async def listed(url: str, **options: Any) -> None:
        async with AsyncRestCatalog(url, config_mode="never", retry=None, **options) as catalog:
            await catalog.list_namespaces()

    asyncio.run(listed("http://catalog.example", proxies={"http": peer.url}))
    monkeypatch.setenv("http_proxy", peer.url.removeprefix("http://"))
    asyncio.run(listed("http://other.example"))
    # A network without a proxy, as requests understands it.
    monkeypatch.setenv("no_proxy", "127.0.0.0/8")
    asyncio.run(listed(peer.url))
    assert [request.target for request in peer.received] == [
        *("http://catalog.example/v1/namespaces", "http://other.example/v1/namespaces", "/v1/namespaces")
    ]
    authority = certificates.write(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    with HttpPeer(tls=context) as secure:
        secure.respond(in_json({}))
        asyncio.run(listed(secure.url, verify=str(authority)))
        asyncio.run(listed(secure.url, verify=False))
        with pytest.raises(TlsError):
            asyncio.run(listed(secure.url))


def test_a_field_of_a_manager_replaces_that_of_the_options_in_any_spelling(peer: HttpPeer) -> None:
    peer.respond(in_json({}))
    auth = {"type": "header", "name": "X-Key", "value": "mine"}
    run(peer, lambda catalog: catalog.list_namespaces(), auth=auth, headers={"x-key": "other"})
    assert peer.received[0].headers.get_all("X-Key") == ["mine"]


def test_a_session_is_not_accepted() -> None:
    with requests.Session() as session, pytest.raises(InvalidArgumentError):
        AsyncRestCatalog("http://127.0.0.1:9", session=session)


def test_invalid_arguments_are_the_same_errors(peer: HttpPeer) -> None:
    with pytest.raises(InvalidArgumentError):
        run(peer, lambda catalog: catalog.load_table("a.\ud800"))
    with pytest.raises(TypeError):
        run(peer, lambda catalog: catalog.load_table("a.t", no_such_option=1))  # type: ignore[call-overload]
    assert peer.received == []


def test_a_real_server(server: CatalogServer, namespace: str) -> None:
    async def main() -> int:
        options: Any = {"warehouse": server.warehouse, "prefix": server.prefix, "auth": server.auth()}
        async with AsyncRestCatalog(server.base_url, **options) as catalog:
            await catalog.create_table(namespace, documents.table("asynchronous"))
            await asyncio.gather(
                *(
                    catalog.update_table(
                        (namespace, "asynchronous"), updates=[updates.set_properties({f"k{number}": "v"})]
                    )
                    for number in range(3)
                ),
                return_exceptions=True,
            )
            await catalog.commit((namespace, "asynchronous"), changes.add_column("note", "string"))
            return len([table async for table in catalog.iter_tables(namespace)])

    assert asyncio.run(main()) == 1
