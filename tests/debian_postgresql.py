"""The PostgreSQL of the distribution, which has the extensions that the embedded one lacks, as a server for tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.conftest import FAST

_INSTALLED = Path("/usr/lib/postgresql")
_ROLE = "authsvc"


def binaries(extension: str) -> Path | None:
    """The programs of the newest version that has an extension; None where there is none."""
    found = [
        folder
        for folder in _INSTALLED.glob("*")
        if (Path("/usr/share/postgresql") / folder.name / "extension" / f"{extension}.control").exists()
        and (folder / "bin" / "initdb").exists()
    ]
    return max(found, key=lambda folder: int(folder.name)) / "bin" if found else None


@contextlib.contextmanager
def running(programs: Path) -> Iterator[str]:
    """URL of a fresh server that listens on a socket alone, and ends with the block."""
    # PostgreSQL refuses to be run by root; its package brings an account.
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    # The path of a socket is short: not in pytest's folder.
    folder = Path(tempfile.mkdtemp(prefix="authsvc-debian-"))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)

    def run(*command: str | Path) -> None:
        # Not into a pipe, which the server would hold open.
        with (folder / "said").open("ab") as said:
            subprocess.run(
                command,
                cwd=folder,
                stdout=said,
                stderr=said,
                check=True,
                user=account and account.pw_uid,
                group=account and account.pw_gid,
                extra_groups=[] if account else None,
                start_new_session=True,
            )

    data = folder / "data"
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), **FAST}
    try:
        run(programs / "initdb", "-D", data, "-U", _ROLE, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-N")
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        run(programs / "pg_ctl", "-D", data, "-o", options, "-w", "start")
        try:
            yield f"postgresql://{_ROLE}@/postgres?host={quote(str(folder), safe='')}"
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)
