"""Runs Caddy with the configuration in `deploy/` in front of a server."""

from __future__ import annotations

import json
from pathlib import Path

from tests import ports
from tests.fakes import smtp
from tests.live import servers
from tests.live.deployment import programs, proxy_client


def test_caddy_serves_tls_sets_client_address_and_buffers_bodies(tmp_path: Path, fresh_database_url: str) -> None:
    program = programs.find("caddy")
    env = {"AUTH_SECURITY_FORWARDED_FOR_ENABLED": "true", "WEB_CONCURRENCY": "1"}
    with servers.LiveServer(folder=tmp_path, database_url=fresh_database_url, env=env) as server:
        proxy = _configure(tmp_path, server.port)
        command: list[str | Path] = [program, "run", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
        home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        with programs.running(command, log=tmp_path / "caddy.log", port=proxy.port, env=home):
            for name in ("X-Forwarded-For", "X_Forwarded_For", "x_forwarded-for", "Svc-Forwarded-For"):
                proxy.request("GET", f"/nowhere/{name}", headers={name: "203.0.113.9"})
            # More than the server has threads.
            with proxy_client.slow_clients(proxy, 8):
                status, headers, _ = proxy.request("POST", "/token?grant_type=refresh_token", b"{}")
            _, _, too_large = proxy.request("POST", "/otp", b"x" * (2**20 + 1))
            server.stop()
            proxy.request("GET", "/verify?token=of-a-link", headers={"apikey": "of-a-client"})
        caddy_log = (tmp_path / "caddy.log").read_text()
        lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]

    addresses = {line["path"]: line["remote_addr"] for line in lines if str(line.get("path")).startswith("/nowhere/")}
    assert len(addresses) == 4
    assert set(addresses.values()) == {proxy_client.CLIENT_ADDRESS}
    assert (status, headers["strict-transport-security"]) == (400, "max-age=31536000")
    assert too_large["error_code"] == "request_entity_too_large"
    assert "/recover" not in {line.get("path") for line in lines}
    assert '"uri":"/verify"' in caddy_log
    assert "of-a-" not in caddy_log


def _configure(folder: Path, port: int) -> proxy_client.Proxy:
    _, authority = smtp.server_tls(folder, host=proxy_client.NAME)
    own = ports.free_port()
    certificate = folder / f"{proxy_client.NAME}.pem"
    document = programs.replace_texts(
        (programs.DEPLOY / "Caddyfile").read_text(),
        {
            "\n{\n": "\n{\n\tadmin off\n\tauto_https off\n",
            # HTTP/3 needs the UDP port, which the claim of the TCP port holds.
            "\tservers {\n": "\tservers {\n\t\tprotocols h1 h2\n",
            "auth.example.com {": f"https://{proxy_client.NAME}:{own} {{\n\ttls {certificate} {certificate}",
            "reverse_proxy 127.0.0.1:8081": f"reverse_proxy 127.0.0.1:{port}",
            "lb_try_duration 5s": "lb_try_duration 100ms",
        },
    )
    (folder / "Caddyfile").write_text(document)
    return proxy_client.Proxy(port=own, plain_port=0, authority=authority)
