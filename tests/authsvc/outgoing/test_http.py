"""Outgoing HTTP calls: requests, responses, slow and malformed peers, redirects, and logs without secrets."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from authsvc.outgoing import connections, http
from tests import ports
from tests.fakes.http_peer import HttpPeer, Received, Response, in_json, redirect
from tests.fakes.smtp import server_tls
from tests.timeouts import wait_until

PLAIN = Response(body=b"hello")


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def peer() -> Iterator[HttpPeer]:
    with HttpPeer() as running:
        running.respond(PLAIN)
        yield running


def send(url: str, method: str = "GET", *, seconds: float = 30, max_bytes: int = 1000, **options: Any) -> http.Response:
    return http.send(method, url, timeout=timedelta(seconds=seconds), max_bytes=max_bytes, **options)


def error(url: str, method: str = "GET", **options: Any) -> str:
    with pytest.raises(http.Unreachable) as caught:
        send(url, method, **options)
    assert caught.value.__cause__ is None
    return str(caught.value)


def only(peer: HttpPeer) -> Received:
    (received,) = peer.received
    return received


# --- requests --------------------------------------------------------------------------------------------------------


def test_a_reply_has_status_headers_and_body(peer: HttpPeer) -> None:
    peer.respond(Response(status=418, headers={"X-Kind": "tea"}, body=b'{"a": [1]}'))
    response = send(f"{peer.url}/pot?b=c")
    assert (response.status, response.headers["x-kind"], response.json()) == (418, "tea", {"a": [1]})
    received = only(peer)
    assert (received.method, received.target, received.body) == ("GET", "/pot?b=c", b"")
    assert received.headers["User-Agent"].startswith("authsvc/")


def test_a_form_is_encoded_and_credentials_are_sent(peer: HttpPeer) -> None:
    send(peer.url, "POST", form={"To": "+1555", "Body": "é &"}, auth=("AC1", "pässword"))
    received = only(peer)
    assert received.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert received.body == b"To=%2B1555&Body=%C3%A9+%26"
    assert received.headers["Authorization"] == "Basic QUMxOnDDpHNzd29yZA=="


def test_json_is_serialized_and_bytes_are_sent_unchanged(peer: HttpPeer) -> None:
    send(peer.url, "PUT", json={"a": None}, headers={"User-Agent": "me"})
    send(peer.url, "POST", content=b'{"a":1}', headers={"Content-Type": "application/json"})
    document, octets = peer.received
    assert (document.json(), document.headers["Content-Type"]) == ({"a": None}, "application/json")
    assert document.headers.get_all("User-Agent") == ["me"]
    assert octets.body == b'{"a":1}'


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"\xff", b"NaN"])
def test_a_body_that_is_not_json_raises_value_error(peer: HttpPeer, body: bytes) -> None:
    peer.respond(Response(body=body))
    with pytest.raises(ValueError, match=r"."):
        send(peer.url).json()


def test_cookies_are_not_kept(peer: HttpPeer) -> None:
    peer.respond(Response(headers={"Set-Cookie": "a=b; Path=/"}), PLAIN)
    send(peer.url)
    send(peer.url)
    assert peer.received[1].headers["Cookie"] is None


def test_a_netrc_file_is_not_read(peer: HttpPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine {peer.host} login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    send(peer.url)
    assert only(peer).headers["Authorization"] is None


# --- connections ------------------------------------------------------------------------------------------------------


def test_each_thread_reuses_its_own_connection(peer: HttpPeer) -> None:
    send(peer.url)
    send(peer.url, seconds=20)
    send(peer.url)
    other = threading.Thread(target=send, args=(peer.url,))
    other.start()
    other.join()
    numbers = [received.connection for received in peer.received]
    assert numbers[:3] == [numbers[0]] * 3
    assert numbers[3] != numbers[0]


def test_a_connection_that_was_idle_too_long_is_not_reused(peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    send(peer.url)
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 31)
    send(peer.url)
    assert len({received.connection for received in peer.received}) == 2


def test_a_connection_that_the_peer_has_closed_is_not_reused(peer: HttpPeer) -> None:
    peer.respond(Response(body=b"a", headers={"Content-Length": "1"}, close=True), PLAIN)
    send(peer.url)
    wait_until(lambda: not peer.open_connections, "a closed connection")
    assert send(peer.url).body == b"hello"


def test_each_call_on_a_connection_has_its_full_timeout(peer: HttpPeer) -> None:
    peer.respond(Response(delay=2, body=b"a"))
    assert send(peer.url, seconds=3.9).body == b"a"
    assert send(peer.url, seconds=3.9).body == b"a"
    assert len({received.connection for received in peer.received}) == 1


def test_every_address_of_a_name_is_tried(peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(_host: str, port: int, **_: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("240.0.0.1", "127.0.0.2", "127.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert send(f"http://several.example:{peer.port}").body == b"hello"


def test_proxies_of_the_environment_are_used(peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", peer.url.replace("://", "://user:pass@"))
    assert send("http://far.example/a?b=c").body == b"hello"
    received = only(peer)
    assert received.target == "http://far.example/a?b=c"
    assert received.headers["Proxy-Authorization"] == "Basic dXNlcjpwYXNz"


# --- malformed responses ----------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\n"
BOMB = gzip.compress(bytes(50_000_000))


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Response(hang=True), id="no response"),
        pytest.param(Response(delay=30), id="late response"),
        pytest.param(Response(drip=0.5, body=b"a" * 100), id="slow head"),
        pytest.param(Response(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, drip=0.05), id="endless interim responses"),
    ],
)
def test_a_slow_peer_does_not_exceed_the_timeout_of_the_call(peer: HttpPeer, response: Response) -> None:
    peer.respond(response)
    began = time.monotonic()
    assert error(peer.url, seconds=0.6) == "timed out"
    assert 0.5 < time.monotonic() - began < 20


def drip_body(server: socket.socket) -> None:
    """Send a head, then one byte of the body at a time."""
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(HEAD + b"Content-Length: 600\r\n\r\n")
        try:
            for _ in range(600):
                connection.sendall(b"a")
                time.sleep(0.1)
        except OSError:
            return


def test_a_slow_body_does_not_exceed_the_timeout_of_the_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip_body, args=(server,))
        dripping.start()
        began = time.monotonic()
        assert error(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=0.6) == "timed out"
        assert 0.5 < time.monotonic() - began < 20
        dripping.join()


def test_a_silent_resolver_does_not_exceed_the_timeout_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(60) and [])
    began = time.monotonic()
    assert error("http://slow.example", seconds=0.3) == "timed out"
    assert time.monotonic() - began < 20
    released.set()


def test_a_silent_resolver_occupies_a_limited_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(60) and [])
    before = threading.active_count()
    for _ in range(40):
        with pytest.raises(TimeoutError):
            connections.look_up("slow.example", 80, seconds=0.01)
    assert threading.active_count() - before <= 32
    released.set()


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Response(raw=b""), id="closes"),
        pytest.param(Response(raw=b"\x00\xff garbage \r\n\r\n"), id="garbage"),
        pytest.param(Response(raw=HEAD + b"A: " + b"a" * 70_000 + b"\r\n\r\n"), id="a long header line"),
        pytest.param(Response(raw=HEAD + b"A: b\r\n" * 200 + b"\r\n"), id="too many headers"),
        pytest.param(Response(raw=HEAD + b"Content-Length: 10\r\n\r\nabc"), id="half a body"),
        pytest.param(Response(raw=HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), id="two lengths"),
        pytest.param(Response(raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), id="an invalid chunk size"),
        pytest.param(Response(raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"), id="half a chunk"),
        pytest.param(Response(headers={"Content-Encoding": "gzip"}, body=b"not gzip"), id="wrong content encoding"),
    ],
)
def test_a_malformed_response_is_an_error(peer: HttpPeer, response: Response) -> None:
    peer.respond(response)
    assert error(f"{peer.url}/a?secret=hunter2", "POST", form={"password": "hunter2"})
    peer.respond(PLAIN)
    assert send(peer.url).body == b"hello"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(Response(body=bytes(1001)), id="one byte more"),
        pytest.param(Response(body=bytes(10_000_000)), id="ten megabytes"),
        pytest.param(Response(headers={"Content-Encoding": "gzip"}, body=BOMB), id="a bomb"),
        pytest.param(
            Response(headers={"Content-Encoding": "gzip, gzip"}, body=gzip.compress(BOMB)), id="a nested bomb"
        ),
        pytest.param(
            Response(headers={"Content-Encoding": "deflate"}, body=zlib.compress(bytes(5_000_000))), id="zlib"
        ),
        pytest.param(
            Response(
                raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + bytes(1000) + b"\r\n1\r\na\r\n0\r\n\r\n"
            ),
            id="in chunks",
        ),
        pytest.param(Response(raw=HEAD + b"\r\n" + bytes(2000)), id="without a length"),
    ],
)
def test_a_long_response_is_an_error_or_truncated(peer: HttpPeer, response: Response) -> None:
    peer.respond(response)
    assert error(peer.url) == "the response is too long"
    assert send(peer.url, truncate=True).body == bytes(1000)


def test_a_response_of_exactly_the_limit_is_complete(peer: HttpPeer) -> None:
    peer.respond(Response(headers={"Content-Encoding": "gzip"}, body=gzip.compress(bytes(1000))))
    assert send(peer.url).body == bytes(1000)


def test_endless_framing_is_an_error(peer: HttpPeer) -> None:
    peer.respond(Response(raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;" + b"a" * 5_000_000))
    assert error(peer.url)
    peer.respond(Response(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000))
    assert error(peer.url) == "the response is too long"


def test_a_failed_connection_is_reported(peer: HttpPeer) -> None:
    assert error(f"http://127.0.0.1:{ports.free_port()}/?secret=hunter2") == "Connection refused"
    assert error("http://nowhere.invalid/?secret=hunter2")


@pytest.mark.parametrize(
    "url", ["", "nowhere", "file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http://[::1", "http://a b/", "//x/y"]
)
def test_an_invalid_url_is_an_error(url: str) -> None:
    assert error(url)


def test_a_header_with_a_line_break_is_not_sent(peer: HttpPeer) -> None:
    assert "hunter2" not in error(peer.url, headers={"X-Key": "hunter2\r\nX-Other: a"})
    assert peer.received == []


# --- TLS --------------------------------------------------------------------------------------------------------------


def test_certificates_of_an_authority_in_the_environment_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = server_tls(tmp_path, host="127.0.0.1")
    with HttpPeer(tls=context) as peer:
        peer.respond(PLAIN)
        assert error(peer.url) == "TLS: unable to get local issuer certificate"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        assert [send(peer.url).body for _ in range(2)] == [b"hello", b"hello"]
        assert len({received.connection for received in peer.received}) == 1


def test_a_peer_without_tls_is_reported(peer: HttpPeer) -> None:
    with pytest.raises(http.TlsFailed, match=r"^TLS: "):
        send(peer.url.replace("http:", "https:"))


# --- redirects --------------------------------------------------------------------------------------------------------


def test_redirects_are_not_followed_by_default(peer: HttpPeer) -> None:
    peer.respond(redirect("/elsewhere"), PLAIN)
    response = send(peer.url)
    assert (response.status, response.headers["Location"]) == (302, "/elsewhere")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_on_request(peer: HttpPeer, status: int) -> None:
    peer.respond(redirect("b?c=d", status=status), path="/x/a")
    assert send(f"{peer.url}/x/a", headers={"X-Key": "s"}, auth=("a", "b"), follow_redirects=True).body == b"hello"
    _, second = peer.received
    assert (second.method, second.target, second.headers["X-Key"]) == ("GET", "/x/b?c=d", "s")
    assert second.headers["Authorization"] is not None


def test_credentials_are_not_sent_to_another_origin(peer: HttpPeer) -> None:
    with HttpPeer() as other:
        other.respond(PLAIN)
        peer.respond(redirect(f"{other.url}/b"))
        headers = {"X-Api-Key": "s", "Cookie": "a=b"}
        assert send(peer.url, follow_redirects=True, headers=headers, auth=("a", "b")).body == b"hello"
        sent = only(other).headers
    assert [sent[name] for name in ("X-Api-Key", "Cookie", "Authorization")] == [None, None, None]


def test_the_number_of_redirects_is_limited(peer: HttpPeer) -> None:
    peer.respond(redirect("/again"))
    assert error(peer.url, follow_redirects=True) == "more than 5 redirects"
    assert len(peer.received) == 6


@pytest.mark.parametrize("location", ["file:///etc/passwd", "javascript:alert(1)", "http://[::1", "gopher://x/"])
def test_redirects_to_other_schemes_are_errors(peer: HttpPeer, location: str) -> None:
    peer.respond(redirect(location))
    assert error(peer.url, follow_redirects=True).startswith("redirected to ")


def test_the_timeout_of_a_call_includes_its_redirects(peer: HttpPeer) -> None:
    peer.respond(Response(status=302, headers={"Location": "/again"}, delay=0.25))
    assert error(peer.url, seconds=0.6, follow_redirects=True) == "timed out"
    assert len(peer.received) <= 3


def test_the_body_of_a_redirect_is_not_read_completely(peer: HttpPeer) -> None:
    peer.respond(Response(status=302, headers={"Location": "/b"}, body=bytes(10_000_000)))
    assert send(peer.url, truncate=True).body == bytes(1000)


def test_only_get_follows_redirects(peer: HttpPeer) -> None:
    with pytest.raises(ValueError, match="only GET"):
        send(peer.url, "POST", form={"a": "b"}, follow_redirects=True)


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%lo", False),
        ("fc00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::1", False),
        ("64:ff9b:1:ffff:ffff:ffff:808:808", False),
        ("fec0::1", False),
        ("feff:ffff::1", False),
        ("::7f00:1", False),
        ("::808:808", False),
        ("168.63.129.16", False),
        ("168.63.129.17", True),
        ("100.100.100.200", False),
        ("fd00:ec2::254", False),
        ("::ffff:168.63.129.16", False),
        ("64:ff9b::a83f:8110", False),
        ("2002:a83f:8110::1", False),
        ("192.88.99.1", False),
        ("3fff::1", False),
        ("5f00::1", False),
    ],
)
def test_only_public_addresses_are_public(address: str, expected: bool) -> None:
    assert connections.is_public(address) is expected


def test_public_only_calls_reject_private_addresses(peer: HttpPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send(peer.url).body == b"hello"
    for url in (peer.url, peer.url.replace("127.0.0.1", "localhost")):
        assert error(url, public_only=True) == "the host has no public address"
    monkeypatch.setenv("http_proxy", peer.url)
    assert error("http://127.0.0.1:1/", public_only=True) == "the host has no public address"
    assert len(peer.received) == 1


# --- logs -------------------------------------------------------------------------------------------------------------


def test_the_log_contains_host_and_path_only(peer: HttpPeer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "authsvc")
    peer.respond(in_json({"token": "hunter2"}), Response(raw=b""))
    url = f"{peer.url.replace('://', '://hunter2:hunter2@')}/a?key=hunter2"
    response = send(url, "POST", form={"password": "hunter2"}, headers={"X-Key": "hunter2"})
    with pytest.raises(http.Unreachable) as caught:
        send(url, "POST", form={"password": "hunter2"}, auth=("me", "hunter2"))
    fine, failed = (vars(record) for record in caplog.records)
    assert (fine["method"], fine["host"], fine["path"], fine["outcome"]) == ("POST", "127.0.0.1", "/a", 200)
    assert failed["outcome"] == str(caught.value)
    assert "hunter2" not in f"{fine}{failed}{response}{caught.value!r}"
