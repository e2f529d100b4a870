"""Several servers and a worker on one database, behind nginx, with a mail server and a receiver of webhooks."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import conninfo

from tests import ports, preloaded_python
from tests.deployment.postgresql import DATABASE, ROLE, Pair
from tests.fakes.http_peer import HttpPeer, Response
from tests.fakes.smtp import FakeSmtp
from tests.live import servers
from tests.live.deployment import programs
from tests.live.servers import LiveServer
from tests.settings import ENVIRONMENT

_NGINX = """
pid {folder}/nginx.pid;
error_log {folder}/error.log;
daemon off;
{user}
events {{}}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/authsvc.conf;
}}
"""
_PASSWORD = "of-the-pooler"
_LIMITS = ("EMAIL_SENT", "OTP", "TOKEN_REFRESH", "VERIFY")
_SETTINGS = {
    "WEB_CONCURRENCY": "1",
    "AUTH_MAILER_SUBJECTS_CONFIRMATION": "Your code is {{ .Token }}",
    "AUTH_SMTP_ADMIN_EMAIL": "noreply@example.com",
    "AUTH_SECURITY_FORWARDED_FOR_ENABLED": "true",
    "AUTH_WEBHOOKS_ENABLED": "true",
    "AUTH_WEBHOOKS_ALLOW_PRIVATE_NETWORKS": "true",
    # A client repeats a refresh until it is answered, which takes longer than an outage.
    "AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL": "300",
    **{f"AUTH_RATE_LIMIT_{name}": "1000000000" for name in _LIMITS},
}
_ENDPOINT = "INSERT INTO webhook_endpoints (id, url, event_types, secret) VALUES (%s, %s, %s, %s)"
_WEBHOOK_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    pair: Pair
    servers: list[LiveServer]
    workers: list[LiveServer]
    port: int
    """The port of nginx in front of the servers."""
    smtp: FakeSmtp
    receiver: HttpPeer
    """Receives every event as a webhook."""
    replace: Callable[[LiveServer], LiveServer]
    """Starts a stopped server or worker again, in the version of this repository."""


def extract_former_version(folder: Path, commit: str = "") -> Path:
    """A new folder with the files of `commit`, by default of the last one without the newest migration.

    Skips the test without the history. Raises CalledProcessError for an unknown commit.
    """
    git = ["git", "-C", str(servers.PROJECT)]
    added = ["log", "-1", "--diff-filter=A", "--format=%H", "--", "*/migrations/*.py"]
    try:
        newest = subprocess.run([*git, *added], capture_output=True, text=True, check=True).stdout.strip()
        archive = subprocess.run([*git, "archive", commit or f"{newest}^"], capture_output=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        if commit:
            raise
        pytest.skip("the history of git does not contain the former version")
    former = folder / "former"
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(former, filter="data")
    return former


def migrate(pair: Pair, project: Path = servers.PROJECT) -> None:
    """Apply the migrations of a version. Raises CalledProcessError."""
    command = [str(project / "manage.py"), "migrate", "-v", "0"]
    environment = {**os.environ, **ENVIRONMENT, "DATABASE_URL": pair.url, "PYTHONPATH": str(project)}
    if project == servers.PROJECT:
        preloaded_python.run(command, env=environment, timeout=servers.START_SECONDS).check_returncode()
    else:
        command = [sys.executable, *command]
        subprocess.run(command, env=environment, cwd=project, timeout=servers.START_SECONDS, check=True)


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    pair: Pair,
    number: int,
    worker_number: int = 1,
    database_url: str = "",
    env: Mapping[str, str] | None = None,
    further_env: Callable[[int], Mapping[str, str]] = lambda _position: {},
    project: Path = servers.PROJECT,
) -> Iterator[Installation]:
    """`number` servers, each with its own worker thread, and `worker_number` separate workers.

    `further_env` returns further settings of the server or worker at a position; the servers come first. Without
    `database_url` all of them use both hosts of `pair`. `project` contains the version that runs.
    """
    port = ports.free_port()
    with contextlib.ExitStack() as stack:
        smtp = stack.enter_context(FakeSmtp())
        receiver = stack.enter_context(HttpPeer())
        receiver.respond(Response(status=204))
        settings = {**_SETTINGS, "AUTH_API_EXTERNAL_URL": f"http://127.0.0.1:{port}"}
        settings |= {"AUTH_SMTP_HOST": smtp.host, "AUTH_SMTP_PORT": str(smtp.port), **(env or {})}

        def start(position: int, *, version: Path = project, port: int | None = None) -> LiveServer:
            further = further_env(position)
            server = LiveServer(
                folder=folder,
                database_url=database_url or pair.url,
                env={**settings, **further, "PYTHONPATH": str(version)},
                command=(str(version / "manage.py"), "serve" if position < number else "worker"),
                port=port,
                # Only a new interpreter loads another version, or a library that changes the clock.
                is_new_interpreter=version != servers.PROJECT or "LD_PRELOAD" in further,
            )
            stack.callback(server.kill)
            server.launch()
            return server

        def replace(server: LiveServer) -> LiveServer:
            return start([*started, *workers].index(server), version=servers.PROJECT, port=server.port)

        migrate(pair, project)
        # The servers must know the endpoint from their start.
        with pair.primary.connect() as connection:
            connection.execute(_ENDPOINT, (uuid.uuid4(), receiver.url, ["*"], _WEBHOOK_SECRET))
        started = [start(position) for position in range(number)]
        for server in started:
            server.wait()
        workers = [start(number + position) for position in range(worker_number)]
        stack.enter_context(_balancer(folder, port=port, server_ports=[server.port for server in started]))
        yield Installation(
            pair=pair, servers=started, workers=workers, replace=replace, port=port, smtp=smtp, receiver=receiver
        )


@contextlib.contextmanager
def _balancer(folder: Path, *, port: int, server_ports: list[int]) -> Iterator[None]:
    """nginx with the configuration in `deploy/`, without TLS."""
    program = programs.find("nginx")
    document = programs.replace_texts(
        (programs.DEPLOY / "nginx.conf").read_text(),
        {
            "listen 80;": f"listen 127.0.0.1:{ports.free_port()};",
            "listen [::]:80;": "",
            "listen 443 ssl http2;": f"listen 127.0.0.1:{port};",
            "listen [::]:443 ssl http2;": "",
            "ssl_certificate ": "# ",
            "ssl_certificate_key ": "# ",
            "/var/log/nginx/authsvc.log authsvc": "off",
            "server 127.0.0.1:8081 max_fails=0;": "".join(
                f"server 127.0.0.1:{one} max_fails=0;" for one in server_ports
            ),
        },
    )
    (folder / "authsvc.conf").write_text(document)
    # Without it, nginx started by root drops to a user that may not read this directory.
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, user=user))
    with programs.running([program, "-c", folder / "nginx.conf"], log=folder / "nginx.log", port=port):
        yield


class Pooler:
    """PgBouncer with the configuration in `deploy/`, in front of the primary."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self._port = ports.free_port()
        self._folder = folder
        self._program = programs.find_recent_pgbouncer()
        has_prepared_statements = programs.can_prepare_statements(self._program)
        self.settings = programs.pooling_settings(has_prepared_statements=has_prepared_statements)
        self._stack = contextlib.ExitStack()
        self.url = f"postgresql://{ROLE}:{_PASSWORD}@127.0.0.1:{self._port}/{DATABASE}"
        users = folder / "userlist.txt"
        users.write_text(f'"{ROLE}" "{_PASSWORD}"\n')
        target = conninfo.make_conninfo(host="127.0.0.1", port=pair.primary.port, dbname=DATABASE)
        document = programs.replace_texts(
            (programs.DEPLOY / "pgbouncer.ini").read_text(),
            {
                "authsvc = host=127.0.0.1 port=5432 dbname=authsvc": f"authsvc = {target}",
                "listen_port = 6432": f"listen_port = {self._port}\nunix_socket_dir =",
                "/etc/pgbouncer/userlist.txt": str(users),
            },
        )
        (folder / "pgbouncer.ini").write_text(document)

    def start(self) -> None:
        # PgBouncer refuses to run as root, while the files belong to the user that runs the tests.
        as_user = programs.AS_UNPRIVILEGED_USER if os.geteuid() == 0 else ()
        command = [*as_user, self._program, str(self._folder / "pgbouncer.ini")]
        log = self._folder / "pgbouncer.log"
        self._stack.enter_context(
            programs.running(command, log=log, port=self._port, stop_signal=programs.PGBOUNCER_STOP_SIGNAL)
        )

    def stop(self) -> None:
        self._stack.close()

    def is_listening(self) -> bool:
        return ports.is_listening(self._port)

    def __enter__(self) -> Pooler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
