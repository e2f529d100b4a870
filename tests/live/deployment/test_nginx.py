"""Runs nginx with the configuration in `deploy/` in front of two servers."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest

from tests import ports
from tests.fakes import smtp
from tests.live import servers as live
from tests.live.deployment import programs, proxy_client
from tests.settings import ENVIRONMENT
from tests.timeouts import wait_until

FRAME = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
{user}
worker_processes 1;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/authsvc.conf;
}}
"""
"""Like a distribution's nginx.conf, in a separate directory."""
LIMITS_OFF = {f"AUTH_RATE_LIMIT_{bucket}": "1000000" for bucket in ("TOKEN_REFRESH", "OTP", "EMAIL_SENT")}
CREDENTIALS = {"email": "ada@example.com", "password": "correct horse 1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    proxy: proxy_client.Proxy
    servers: tuple[live.LiveServer, live.LiveServer]
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two servers on one database behind nginx."""
    nginx = programs.find("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    env = {**LIMITS_OFF, "AUTH_MAILER_AUTOCONFIRM": "true", "AUTH_REQUEST_ID_HEADER": "X-Request-ID"}
    env |= {
        "WEB_CONCURRENCY": "1",
        "AUTH_API_EXTERNAL_URL": f"https://{proxy_client.NAME}",
        "AUTH_SECURITY_FORWARDED_FOR_ENABLED": "true",
    }
    with (
        live.fresh_database() as url,
        live.LiveServer(folder=folder, database_url=url, env=env) as first,
        live.LiveServer(folder=folder, database_url=url, env=env) as second,
    ):
        proxy = _configure(folder, [first.port, second.port])
        with programs.running([nginx, "-c", folder / "nginx.conf"], log=folder / "nginx.log", port=proxy.port):
            yield Site(proxy=proxy, servers=(first, second), folder=folder)


def _configure(folder: Path, server_ports: list[int]) -> proxy_client.Proxy:
    _, authority = smtp.server_tls(folder, host=proxy_client.NAME)
    port, plain_port = ports.free_port(), ports.free_port()
    document = programs.replace_texts(
        (programs.DEPLOY / "nginx.conf").read_text(),
        {
            "listen 80;": f"listen 127.0.0.1:{plain_port};",
            "listen [::]:80;": "",
            "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
            "listen [::]:443 ssl http2;": "",
            "/etc/letsencrypt/live/auth.example.com/fullchain.pem": f"{folder}/{proxy_client.NAME}.pem",
            "/etc/letsencrypt/live/auth.example.com/privkey.pem": f"{folder}/{proxy_client.NAME}.pem",
            "/var/log/nginx/authsvc.log": f"{folder}/access.log",
            "server 127.0.0.1:8081": f"server 127.0.0.1:{server_ports[0]}",
            "# server 127.0.0.1:8082": f"server 127.0.0.1:{server_ports[1]}",
        },
    )
    (folder / "authsvc.conf").write_text(document)
    # Without it, nginx started by root drops to a user that may not read this directory.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(FRAME.format(folder=folder, user=user))
    return proxy_client.Proxy(port=port, plain_port=plain_port, authority=authority)


def logged(site: Site, path: str) -> list[dict[str, object]]:
    """Log entries of the servers for requests to this path."""
    lines = [line for server in site.servers for line in server.log.read_text().splitlines()]
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return [record for record in records if record.get("path") == path]


def test_sign_up_sign_in_and_logout_over_tls(site: Site) -> None:
    body = json.dumps({**CREDENTIALS, "email": "grace@example.com"}).encode()
    assert site.proxy.request("POST", "/signup", body)[0] == 200
    status, headers, session = site.proxy.request("POST", "/token?grant_type=password", body)
    bearer = {"Authorization": f"Bearer {session['access_token']}"}

    assert (status, headers["strict-transport-security"]) == (200, "max-age=31536000")
    assert site.proxy.request("GET", "/user", headers=bearer)[2]["email"] == "grace@example.com"
    assert site.proxy.request("POST", "/logout", headers=bearer)[0] == 204


def test_plain_http_is_redirected_and_keeps_method_and_body(site: Site) -> None:
    client = http.client.HTTPConnection("127.0.0.1", site.proxy.plain_port, timeout=30)
    client.request("POST", "/token?grant_type=password", "{}", {"Host": proxy_client.NAME})
    response = client.getresponse()
    client.close()

    assert response.status == 308
    assert response.headers["Location"] == f"https://{proxy_client.NAME}/token?grant_type=password"


@pytest.mark.parametrize(
    "name", ["X-Forwarded-For", "x_forwarded_for", "X_Forwarded-For", "Svc-Forwarded-For", "Forwarded", "X-Real-IP"]
)
def test_client_cannot_forge_its_address(name: str, site: Site) -> None:
    path = f"/nowhere/{name}"
    assert site.proxy.request("GET", path, headers={name: "203.0.113.9"})[0] == 404

    assert [record["remote_addr"] for record in logged(site, path)] == [proxy_client.CLIENT_ADDRESS]


def test_proxy_and_service_log_same_request_id_and_no_query_secret(site: Site) -> None:
    site.proxy.request("GET", "/verify/?type=signup&token=0123456789abcdef0123456789")
    [record] = logged(site, "/verify/")
    log = site.folder / "access.log"
    # nginx logs a request after its response.
    wait_until(lambda: " /verify/" in log.read_text(), "the request in the log of nginx")
    [line] = [line for line in log.read_text().splitlines() if " /verify/" in line]

    assert str(record["request_id"]) in line
    assert "0123456789abcdef" not in line


def test_slow_bodies_block_no_server_thread(site: Site) -> None:
    # More than both servers have threads.
    with proxy_client.slow_clients(site.proxy, 24):
        responses = [site.proxy.request("POST", "/token?grant_type=refresh_token", b"{}")[0] for _ in range(8)]

        assert responses == [400] * 8
        assert logged(site, "/recover") == [], "no request has reached the service"


def test_too_large_body_gets_error_of_service(site: Site) -> None:
    body = b'{"email":"' + b"x" * 2**20 + b'"}'
    status, headers, by_proxy = site.proxy.request("POST", "/signup", body)
    direct = http.client.HTTPConnection("127.0.0.1", site.servers[0].port, timeout=30)
    _, _, by_service = proxy_client.ask(direct, "POST", "/signup", body)
    direct.close()

    assert (status, by_proxy) == (413, by_service)
    assert headers["access-control-allow-origin"] == "*"


def test_redirect_with_large_tokens_passes(site: Site) -> None:
    credentials = {"email": "long@example.com", "password": CREDENTIALS["password"], "data": {"bio": "x" * 8_000}}
    assert site.proxy.request("POST", "/signup", json.dumps(credentials).encode())[0] == 200
    claims = {"role": "service_role", "aud": ENVIRONMENT["AUTH_JWT_AUD"], "exp": int(time.time()) + 600}
    bearer = {"Authorization": f"Bearer {jwt.encode(claims, ENVIRONMENT['AUTH_JWT_SECRET'], 'HS256')}"}
    body = json.dumps({"type": "magiclink", "email": credentials["email"]}).encode()
    made = site.proxy.request("POST", "/admin/generate_link", body, bearer)[2]

    status, headers, _ = site.proxy.request("GET", made["action_link"].removeprefix(f"https://{proxy_client.NAME}"))
    assert (status, len(headers.get("location", "")) > 10_000) == (303, True)
    # Such a token is also accepted in a header.
    [access] = parse_qs(urlsplit(headers["location"]).fragment)["access_token"]
    assert len(access) > 10_000
    assert site.proxy.request("GET", "/user", headers={"Authorization": f"Bearer {access}"})[0] == 200


def test_restarted_replicas_fail_no_request(site: Site) -> None:
    site.proxy.request("POST", "/signup", json.dumps(CREDENTIALS).encode())
    signed_in = site.proxy.request("POST", "/token?grant_type=password", json.dumps(CREDENTIALS).encode())[2]
    stream = Stream(site.proxy, signed_in["access_token"])
    with stream:
        for server in site.servers:
            stream.wait_for_responses(50)
            assert server.stop(signal.SIGTERM) == 0
            server.launch()
            server.wait()
        stream.wait_for_responses(50)

    assert stream.failures == []


class Stream:
    """User reads and sign-ups in turn, about 200 per second in total, while the `with` block runs."""

    def __init__(self, proxy: proxy_client.Proxy, access_token: str) -> None:
        self.failures: list[str] = []
        self.answered = 0
        self._proxy = proxy
        self._bearer = {"Authorization": f"Bearer {access_token}"}
        self._number = itertools.count()
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(8)]

    def _send(self) -> None:
        client = self._proxy.client()
        while not self._done.wait(0.04):
            number = next(self._number)
            try:
                if number % 2:
                    status = proxy_client.ask(client, "GET", "/user", headers=self._bearer)[0]
                else:
                    status = proxy_client.ask(
                        client, "POST", "/token?grant_type=refresh_token", b'{"refresh_token":"x"}'
                    )[0]
            except (OSError, http.client.HTTPException, ssl.SSLError) as error:
                self.failures.append(repr(error))
                client = self._proxy.client()
                continue
            self.answered += 1
            if status != (200 if number % 2 else 400):
                self.failures.append(f"{number}: {status}")
        client.close()

    def wait_for_responses(self, number: int) -> None:
        """Wait until this many further requests have been answered or one has failed."""
        last = self.answered + number
        wait_until(lambda: self.answered >= last or self.failures, "further responses")

    def __enter__(self) -> Stream:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
