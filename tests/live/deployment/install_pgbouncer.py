"""Installs PgBouncer of Debian 13 on Debian 12: `python -m tests.live.deployment.install_pgbouncer <prefix>`.

PgBouncer of Debian 12 cannot prepare statements. The newer one brings its C library, and uses the other libraries of
Debian 12. The program is `<prefix>/bin/pgbouncer-recent`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main"
PACKAGES = ("pgbouncer", "libc6")
PROGRAM = """#!/bin/sh
exec {loader} --library-path {loader.parent} {files}/usr/sbin/pgbouncer "$@"
"""


def main() -> None:
    prefix = Path(sys.argv[1]).resolve()
    files = prefix / "lib" / "pgbouncer-recent"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lists" / "partial").mkdir(parents=True)
        (folder / "sources.list").write_text(SOURCE)
        # Lists of packages of their own leave those of the system unchanged.
        options = {
            "APT::Sandbox::User": "root",
            "Dir::Cache": folder,
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": folder / "lists",
        }
        apt = ["apt-get", "-q", *(f"-o{option}={value}" for option, value in options.items())]
        subprocess.run([*apt, "update"], cwd=folder, check=True)
        subprocess.run([*apt, "download", *(f"{package}/trixie" for package in PACKAGES)], cwd=folder, check=True)
        files.mkdir(parents=True, exist_ok=True)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, files], check=True)
    [loader] = files.glob("usr/lib/*-linux-gnu/ld-linux*")
    program = prefix / "bin" / "pgbouncer-recent"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM.format(loader=loader, files=files))
    program.chmod(0o755)
    subprocess.run([program, "--version"], check=True)


if __name__ == "__main__":
    main()
