"""The style sheets and scripts of Django's admin and, below `operator/`, of the console."""

from __future__ import annotations

from pathlib import Path

import django

from authsvc.api.static_files import StaticFiles

_FILES = StaticFiles(
    Path(__file__).parent / "static",
    Path(django.__file__).parent / "contrib" / "admin" / "static",
    version=django.__version__,
)
URL = f"/operator/static/{_FILES.fingerprint}/"
serve = _FILES.serve
