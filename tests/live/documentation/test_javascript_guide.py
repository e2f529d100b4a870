"""Compiles the application of the guide for React and Next.js, and uses it against a server like a browser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests import ports
from tests.live.clients import node
from tests.live.documentation import pages
from tests.live.documentation.conftest import Installation

GUIDE = pages.DOCS / "how-to" / "react-nextjs.md"
# Next.js itself has 150 MB. The folder has the functions that the guide uses, with their types.
NEXTJS = Path(__file__).parent / "nextjs"
COMPILER_OPTIONS = (
    "--strict --skipLibCheck --target es2022 --module esnext --moduleResolution bundler --jsx react-jsx"
    " --lib es2022,dom,dom.iterable --types node --rootDir . --outDir compiled"
).split()


def test_application_compiles_and_signs_users_in(installation: Installation, tmp_path: Path) -> None:
    node.install()
    prefixed_port = ports.free_port()
    sources = write_application(tmp_path, prefixed_url=f"http://localhost:{prefixed_port}")
    run("node_modules/typescript/bin/tsc", *COMPILER_OPTIONS, *sources, folder=tmp_path)
    run(
        "browser.mjs",
        str(tmp_path / "compiled"),
        folder=tmp_path,
        AUTHSERVER_URL=installation.url,
        VITE_AUTHSERVER_URL=installation.url,
        TOKEN_ISSUER=installation.url,
        SIGNING_KEY=json.dumps(installation.signing_key),
        APP_URL=installation.variables["AUTH_SITE_URL"],
        PREFIXED_PORT=str(prefixed_port),
    )


def write_application(folder: Path, *, prefixed_url: str) -> list[str]:
    """Write the files of the guide to a directory with the packages that they import, and return those to compile."""
    (folder / "node_modules").mkdir()
    for package in (node.FOLDER / "node_modules").iterdir():
        (folder / "node_modules" / package.name).symlink_to(package)
    (folder / "node_modules" / "next").symlink_to(NEXTJS / "next")
    (folder / "browser.mjs").write_text((NEXTJS / "browser.mjs").read_text())
    (folder / "package.json").write_text('{"type": "module"}')
    programs = pages.programs(GUIDE)
    for path, program in programs.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # Vite defines `import.meta.env`.
        source = program.replace("import.meta.env", "process.env")
        file.write_text(source.replace("https://auth.example.com", prefixed_url))
    return [path for path in programs if path.endswith((".ts", ".tsx"))]


def run(*arguments: str, folder: Path, **env: str) -> None:
    ran = subprocess.run(
        # The functions of Next.js are found beside the program, not where the link leads.
        [node.NODE, "--preserve-symlinks", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
