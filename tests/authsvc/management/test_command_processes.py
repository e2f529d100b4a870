"""Management commands as processes, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
import requests

from authsvc.management.commands import worker
from authsvc.server import processes, startup
from tests import preloaded_python
from tests.live import servers
from tests.settings import DATABASE_FOLDER, ENVIRONMENT

PASSWORD = "correct horse battery 1"
# Passwords are read from the controlling terminal of the session, not from standard input.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
MANAGE = [sys.executable, str(servers.PROJECT / "manage.py")]


def environment(database_url: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, **ENVIRONMENT, "DATABASE_URL": database_url}


def run(*arguments: str, database_url: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(servers.PROJECT / "manage.py"), *arguments]
    return preloaded_python.run(command, env=environment(database_url), input=stdin)


def converse(*arguments: str, database_url: str, responses: list[tuple[str, str]]) -> tuple[int, str]:
    """Run a command on a separate terminal, answer its questions, and return exit status and output.

    `answers` are pairs of the end of what is asked and the line to type.
    """
    terminal, far_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, *MANAGE, *arguments],
        env=environment(database_url),
        stdin=far_end,
        stdout=far_end,
        stderr=far_end,
        start_new_session=True,
    )
    os.close(far_end)
    screen = b""
    waiting = list(responses)
    while True:
        try:
            heard = os.read(terminal, 1024)
        except OSError:  # Linux raises it after the process has closed the terminal
            break
        if not heard:
            break
        screen += heard
        if waiting and screen.rstrip().endswith(waiting[0][0].encode()):
            os.write(terminal, f"{waiting.pop(0)[1]}\n".encode())
            screen += b" "
    os.close(terminal)
    return process.wait(60), screen.decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.LiveServer]:
    """A server with an embedded database, beside which the commands run."""
    # Not below the directory of pytest, whose next start excludes the account of PostgreSQL if root runs the tests.
    with tempfile.TemporaryDirectory(prefix="authsvc-embedded-", dir=DATABASE_FOLDER) as folder:
        database_url = f"embedded:{folder}/pg"
        with servers.LiveServer(folder=tmp_path_factory.mktemp("server"), database_url=database_url) as running:
            yield running


def token_status(url: str, email: str) -> int:
    body = {"email": email, "password": PASSWORD}
    return requests.post(f"{url}/token?grant_type=password", json=body, timeout=60).status_code


def test_createsuperuser_works_on_a_terminal_beside_a_running_server(server: servers.LiveServer) -> None:
    status, screen = converse(
        "createsuperuser",
        database_url=server.database_url,
        responses=[
            ("Email address:", "ops@example.org"),
            ("Password:", PASSWORD),
            ("Password (again):", "another one 1"),
            ("Password:", PASSWORD),
            ("Password (again):", PASSWORD),
        ],
    )
    assert status == 0, screen
    assert "The passwords differ." in screen
    assert "ops@example.org is now an operator (svc_admin)" in screen
    assert PASSWORD not in screen
    assert token_status(server.url, "ops@example.org") == 200


def test_a_script_passes_the_password_on_standard_input(server: servers.LiveServer) -> None:
    arguments = ("createsuperuser", "--email=script@example.org", "--password-file=-")
    done = run(*arguments, database_url=server.database_url, stdin=f"{PASSWORD}\n")
    assert (done.returncode, done.stdout) == (0, "script@example.org is now an operator (svc_admin)\n")
    assert token_status(server.url, "script@example.org") == 200

    again = run(*arguments, database_url=server.database_url, stdin=f"{PASSWORD}\n")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "CommandError: a user with this address exists; use --promote to make the user an operator\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("createuser", "ann@example.com", PASSWORD),
        ("deleteuser", "ann@example.com"),
        ("export_user", "ann@example.com"),
        ("erase_user", "ann@example.com", "--yes"),
    ],
)
def test_a_database_without_tables_is_reported_in_one_line(arguments: tuple[str, ...], empty_database_url: str) -> None:
    done = run(*arguments, database_url=empty_database_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("CommandError: the database is not up to date: run manage.py migrate, or start the server\n")


def test_an_unreachable_database_is_reported_in_one_line_without_its_password() -> None:
    done = run("deleteuser", "ann@example.com", database_url="postgres://me:hidden-secret@127.0.0.1:9/nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: database: connection failed")
    assert done.stderr.count("\n") == 1
    assert "hidden-secret" not in done.stderr


def test_a_worker_logs_a_failed_system_check_and_exits_with_1() -> None:
    env = environment("postgres://me@127.0.0.1:9/nowhere") | {
        "AUTH_SMS_PROVIDER": "twilio",
        "AUTH_SMS_TEMPLATE": "{{ .Code",
    }
    done = preloaded_python.run([str(servers.PROJECT / "manage.py"), "worker"], env=env)
    line = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, line["level"]) == (1, "fatal")
    assert line["msg"].startswith("system checks failed: mailer.E001: ")


def test_a_worker_that_starts_keeps_signals_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked: set[int] = set()

    def check() -> None:
        blocked.update(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        raise SystemExit

    monkeypatch.setattr(startup, "run_system_checks", check)
    try:
        with pytest.raises(SystemExit):
            worker.Command().handle()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, processes.STOPPING)
    assert blocked >= processes.STOPPING


def test_the_first_process_of_a_container_stops_before_its_command_handles_signals() -> None:
    start = "import os, runpy, signal; os.getpid = lambda: 1; runpy.run_path('manage.py')"
    code = f"{start}; signal.raise_signal(signal.SIGTERM)"
    done = subprocess.run([sys.executable, "-c", code], cwd=servers.PROJECT, check=False, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM


def test_a_token_is_minted_without_a_database() -> None:
    arguments = ("mint_token", "--role=service_role", "--expires=1h")
    done = run(*arguments, database_url="postgres://me@127.0.0.1:9/nowhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(".") == 2
