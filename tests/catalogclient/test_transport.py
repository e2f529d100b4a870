"""Slow, silent, broken and hostile servers: timeouts and memory."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from catalogclient import (
    CatalogError,
    CommitStateUnknownError,
    ConnectError,
    InvalidResponseError,
    NetworkError,
    RequestTimeoutError,
    RestCatalog,
    RetryPolicy,
    ServerError,
    Timeout,
    TlsError,
    UnexpectedRedirectError,
)
from tests.catalogclient import certificates
from tests.catalogclient.conftest import Connect, plain_catalog
from tests.fakes.http_peer import HttpPeer, Response, in_json, redirect

TABLE = {"metadata-location": "s3://b/0.json", "metadata": {"format-version": 2, "table-uuid": "u"}}
TIMEOUT_SECONDS = 20.0
"""Seconds within which a call with a timeout of one second must fail."""


@contextmanager
def soon() -> Iterator[None]:
    began_at = time.monotonic()
    yield
    assert time.monotonic() - began_at < TIMEOUT_SECONDS


@contextmanager
def raw_server(talk: Any) -> Iterator[str]:
    """Server that calls `talk` with each connection after the request header."""
    listening = socket.create_server(("127.0.0.1", 0))
    stopping = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                received = b""
                while b"\r\n\r\n" not in received:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    received += piece
                talk(connection, stopping)
            except OSError:
                pass  # The client has closed the connection.

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stopping.set()
        listening.close()


def drip(head: bytes, endless: bytes) -> Any:
    def talk(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(head)
        while not stopping.wait(0.05):
            connection.sendall(endless)

    return talk


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = {
    "status line": drip(b"", b"H"),
    "head": drip(b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    "body of known length": drip(HEAD + b"Content-Length: 1000000\r\n\r\n{", b" "),
    "body until the end": drip(HEAD + b"\r\n{", b" "),
    "chunks": drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


@pytest.mark.parametrize("kind", DRIPS)
def test_a_slow_response_ends_at_the_deadline(kind: str) -> None:
    with (
        raw_server(DRIPS[kind]) as address,
        plain_catalog(address, total_timeout=1.0, timeout=0.7) as catalog,
        soon(),
        pytest.raises(RequestTimeoutError) as caught,
    ):
        catalog.list_namespaces()
    assert caught.value.phase == "total"
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.status == 0


def test_a_server_without_a_response_times_out(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(hang=True))
    with soon(), pytest.raises(RequestTimeoutError) as caught:
        connect(timeout=Timeout(connect=5, read=0.3), retry=None).list_namespaces()
    assert caught.value.phase == "read"
    assert caught.value.sent
    with soon(), pytest.raises(CommitStateUnknownError) as unknown:
        connect(timeout=0.3).update_table("a.t", updates=[])
    assert isinstance(unknown.value.__cause__, RequestTimeoutError)
    assert unknown.value.attempts == 1


def test_default_timeouts_limit_every_wait(connect: Connect) -> None:
    options = connect()._operations._options
    assert options.timeout == Timeout(connect=10.0, read=60.0)
    assert options.total_timeout == 600.0
    assert options.retry is not None


def test_a_host_that_does_not_accept_times_out() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for connection in waiting:
                connection.setblocking(False)
                connection.connect_ex(deaf.getsockname())
            with (
                RestCatalog(
                    f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=0.3, retry=None, config_mode="never"
                ) as catalog,
                soon(),
                pytest.raises(NetworkError) as caught,
            ):
                catalog.update_table("a.t", updates=[])
            assert isinstance(caught.value, RequestTimeoutError)
            assert caught.value.phase == "connect"
            assert not caught.value.sent
        finally:
            for connection in waiting:
                connection.close()


def test_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with plain_catalog(f"http://127.0.0.1:{port}", retry=None) as catalog:
        with pytest.raises(ConnectError) as caught:
            catalog.update_table("a.t", updates=[])
        error = caught.value
        assert error.message.startswith("Network request failed: ")
        assert (error.status, error.attempts, error.maybe_applied) == (0, 1, False)
        assert isinstance(error.details, Exception)


def test_an_unknown_host_name() -> None:
    with (
        plain_catalog("http://catalog.invalid", retry=None) as catalog,
        pytest.raises(ConnectError) as caught,
    ):
        catalog.list_namespaces()
    assert "name not resolved" in str(caught.value)


def test_an_invalid_host_name() -> None:
    with (
        plain_catalog(f"http://{'x' * 70}.example", retry=None) as catalog,
        pytest.raises(CatalogError),
    ):
        catalog.list_namespaces()


def half(connection: socket.socket, _: threading.Event) -> None:
    connection.sendall(HEAD + b'Content-Length: 100\r\n\r\n{"names')


def reset(connection: socket.socket, _: threading.Event) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def nonsense(connection: socket.socket, _: threading.Event) -> None:
    connection.sendall(b"SSH-2.0-x\r\n\r\n")


def short_chunk(connection: socket.socket, _: threading.Event) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{")


def bad_gzip(connection: socket.socket, _: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone")


@pytest.mark.parametrize("talk", [half, reset, nonsense, short_chunk, bad_gzip, lambda connection, _: None])
def test_an_incomplete_response_is_a_network_error_and_maybe_applied(talk: Any) -> None:
    with (
        raw_server(talk) as address,
        plain_catalog(address, retry=RetryPolicy(backoff_base=0.001)) as catalog,
    ):
        with pytest.raises(NetworkError) as caught:
            catalog.list_namespaces()
        assert (caught.value.attempts, caught.value.maybe_applied) == (4, False)
        with pytest.raises(NetworkError) as caught:
            catalog.create_namespace("a")
        assert (caught.value.attempts, caught.value.maybe_applied) == (1, True)
        with pytest.raises(CommitStateUnknownError):
            catalog.update_table("a.t", updates=[])


def flood(head: bytes, piece: bytes) -> Any:
    def talk(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(HEAD + head + b"\r\n")
        while not stopping.is_set():
            connection.sendall(piece)

    return talk


def endless_gzip(connection: socket.socket, stopping: threading.Event) -> None:
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n")
    compressor = zlib.compressobj(wbits=31)
    zeros = bytes(1 << 22)
    connection.sendall(compressor.compress(zeros) + compressor.flush(zlib.Z_SYNC_FLUSH))
    # The same blocks may be repeated without end.
    blocks = compressor.compress(zeros) + compressor.flush(zlib.Z_SYNC_FLUSH)
    while not stopping.is_set():
        connection.sendall(blocks)


@pytest.mark.parametrize(
    "talk", [flood(b"", b" " * 65536), flood(b"Content-Length: 1073741824\r\n", b" " * 65536), endless_gzip]
)
def test_an_endless_response_is_rejected_in_bounded_memory(talk: Any) -> None:
    most = 8_000_000
    with raw_server(talk) as address, plain_catalog(address, max_response_bytes=most) as catalog:
        tracemalloc.start()
        try:
            with soon(), pytest.raises(InvalidResponseError, match="longer than") as caught:
                catalog.list_namespaces()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert caught.value.attempts == 1
    assert peak < 10 * most


def test_an_endless_response_header_is_rejected(peer: HttpPeer) -> None:
    def talk(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not stopping.is_set():
            connection.sendall(b"X-A: " + b"a" * 60_000 + b"\r\n")

    with (
        raw_server(talk) as address,
        plain_catalog(address, retry=None) as catalog,
        soon(),
        pytest.raises(NetworkError),
    ):
        catalog.list_namespaces()


def test_an_endless_error_response_keeps_its_status() -> None:
    head = b"HTTP/1.1 500 Error\r\nContent-Type: text/html\r\n\r\n"

    def talk(connection: socket.socket, stopping: threading.Event) -> None:
        connection.sendall(head)
        while not stopping.is_set():
            connection.sendall(b"<" * 65536)

    with (
        raw_server(talk) as address,
        plain_catalog(address, retry=None) as catalog,
        soon(),
        pytest.raises(ServerError),
    ):
        catalog.list_namespaces()


@pytest.mark.parametrize("compress", [False, True])
def test_transfer_encodings(peer: HttpPeer, connect: Connect, compress: bool) -> None:
    body = json.dumps({"namespaces": [[str(number)] for number in range(9_000)]}).encode()
    sent = gzip.compress(body) if compress else body
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (sent[:5], sent[5:])) + b"0\r\n\r\n"
    encoding = {"Content-Encoding": "gzip"} if compress else {}
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **encoding}
    peer.respond(Response(headers=headers, body=chunks))
    assert len(connect().list_namespaces()) == 9_000


def test_interim_responses_are_skipped(peer: HttpPeer, connect: Connect) -> None:
    interim = b"".join(b"HTTP/1.1 %d Interim\r\nLink: </x>\r\n\r\n" % status for status in (100, 102, 103, 103))
    peer.respond(Response(raw=interim + HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"))
    catalog = connect(retry=None)
    assert len(catalog.list_namespaces()) == 0
    assert catalog.namespace_exists("a")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300])
def test_redirects_are_not_followed(peer: HttpPeer, connect: Connect, status: int) -> None:
    with HttpPeer() as other:
        peer.respond(redirect(f"{other.url}/x?token=s3cr3t#y", status=status))
        for auth in ({"type": "bearer", "token": "t0k"}, {"type": "header", "name": "X-Key", "value": "v"}):
            with pytest.raises(UnexpectedRedirectError) as caught:
                connect(auth=auth).create_namespace("a")
            assert caught.value.status == status
            assert caught.value.location == f"{other.url}/x"
            assert "s3cr3t" not in str(vars(caught.value))
        assert other.received == []


def test_connections_are_reused_and_cookies_ignored(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(headers={"Content-Type": "application/json", "Set-Cookie": "a=b"}, body=b"{}"))
    catalog = connect()
    for _ in range(3):
        catalog.list_namespaces()
        catalog.namespace_exists("a")
    assert {request.connection for request in peer.received} == {1}
    assert all(request.headers["Cookie"] is None for request in peer.received)


def test_a_connection_closed_by_the_server_is_not_reused(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(Response(headers={"Content-Type": "application/json", "Content-Length": "2"}, body=b"{}", close=True))
    catalog = connect(retry=None)
    for _ in range(3):
        catalog.list_namespaces()
        time.sleep(0.05)
    peer.respond(in_json(TABLE))
    catalog.update_table("a.t", updates=[])


def test_only_the_adapters_of_a_callers_session_are_used(peer: HttpPeer, connect: Connect) -> None:
    seen: list[str] = []

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            seen.append(request.url)
            return super().send(request, *args, **options)

    session = requests.Session()
    session.mount("http://", Adapter())
    session.auth = ("someone", "else")
    session.headers["X-Session"] = "1"
    session.hooks["response"].append(lambda response, *_, **__: seen.append("hook"))
    peer.respond(in_json({}))
    with plain_catalog(peer.url, session=session) as catalog:
        catalog.list_namespaces()
    assert seen == [f"{peer.url}/v1/namespaces"]
    assert peer.received[0].headers["Authorization"] is None
    assert session.get(f"{peer.url}/still-open", auth=("a", "b")).status_code == 200
    peer.respond(Response(raw=b"", close=True))
    with (
        plain_catalog(peer.url, session=session, retry=None) as catalog,
        pytest.raises(CommitStateUnknownError),
    ):
        catalog.update_table("a.t", updates=[])
    session.close()


def test_a_failed_connection_of_a_callers_session_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with (
        requests.Session() as session,
        plain_catalog(f"http://127.0.0.1:{port}", session=session, retry=None) as catalog,
    ):
        with pytest.raises(ConnectError) as caught:
            catalog.update_table("a.t", updates=[])
        assert not caught.value.sent


def test_proxies_of_options_and_environment_are_used(
    peer: HttpPeer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.respond(in_json({}))
    with plain_catalog("http://catalog.example/x%2Ey", proxies={"http": peer.url}) as catalog:
        catalog.list_tables(["a.b", "c"])
    assert peer.received[-1].target == "http://catalog.example/x%2Ey/v1/namespaces/a.b%1Fc/tables"
    monkeypatch.setenv("HTTP_PROXY", peer.url.replace("http://127.0.0.1", "localhost"))
    with plain_catalog("http://other.example") as catalog:
        catalog.list_namespaces()
    assert peer.received[-1].target.startswith("http://other.example/")
    with (
        plain_catalog("http://catalog.invalid", trust_env=False, retry=None) as catalog,
        pytest.raises(ConnectError),
    ):
        catalog.list_namespaces()


def test_a_commit_lost_by_a_proxy_is_unknown() -> None:
    with (
        raw_server(lambda connection, _: None) as proxy,
        plain_catalog("http://catalog.example", proxies={"http": proxy}) as catalog,
        pytest.raises(CommitStateUnknownError) as caught,
    ):
        catalog.update_table("a.t", updates=[])
    assert caught.value.attempts == 1


def test_a_request_to_an_unreachable_proxy_is_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with plain_catalog("http://catalog.example", proxies={"http": proxy}, retry=None) as catalog:
        with pytest.raises(ConnectError) as caught:
            catalog.update_table("a.t", updates=[])
        assert not caught.value.maybe_applied


def test_a_request_through_a_failed_tunnel_is_not_sent() -> None:
    def talk(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    with (
        raw_server(talk) as proxy,
        plain_catalog("https://catalog.example", proxies={"https": proxy}) as catalog,
    ):
        with pytest.raises(NetworkError) as caught:
            catalog.update_table("a.t", updates=[])
        assert not caught.value.sent
        assert not caught.value.maybe_applied


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.write(tmp_path_factory.mktemp("tls"))


def test_certificates_are_verified(authority: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    with HttpPeer(tls=context) as secure:
        secure.respond(in_json({}))
        with plain_catalog(secure.url, verify=str(authority)) as catalog:
            catalog.list_namespaces()
        with plain_catalog(secure.url) as catalog:
            with pytest.raises(TlsError) as caught:
                catalog.update_table("a.t", updates=[])
            assert caught.value.attempts == 1
            assert not caught.value.is_retryable
        assert len(secure.received) == 1


def test_a_server_without_tls_is_a_tls_error(peer: HttpPeer) -> None:
    address = peer.url.replace("http://", "https://")
    with plain_catalog(address, retry=None) as catalog, pytest.raises(NetworkError) as caught:
        catalog.update_table("a.t", updates=[])
    assert not caught.value.sent
