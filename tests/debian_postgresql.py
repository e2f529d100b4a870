"""Runs Debian's PostgreSQL, which has extensions that the embedded one lacks, as a test server."""

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
from tests.settings import DATABASE_FOLDER

_INSTALLED = Path("/usr/lib/postgresql")
_ROLE = "authsvc"


def binaries(extension: str) -> Path | None:
    """The program directory of the newest version that has the extension, or None."""
    folders = [
        folder
        for folder in _INSTALLED.glob("*")
        if (Path("/usr/share/postgresql") / folder.name / "extension" / f"{extension}.control").exists()
        and (folder / "bin" / "initdb").exists()
    ]
    return max(folders, key=lambda folder: int(folder.name)) / "bin" if folders else None


@contextlib.contextmanager
def running(programs: Path) -> Iterator[str]:
    """URL of a new server that listens on a Unix socket and stops at the end of the block."""
    # PostgreSQL does not run as root; its package creates a system user.
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    # Socket paths have a length limit, which pytest's directories exceed.
    folder = Path(tempfile.mkdtemp(prefix="authsvc-debian-", dir=DATABASE_FOLDER))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)

    def run(*command: str | Path) -> None:
        # The server would keep a pipe open.
        with (folder / "output.log").open("ab") as output:
            subprocess.run(
                command,
                cwd=folder,
                stdout=output,
                stderr=output,
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
