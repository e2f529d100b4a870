"""Serves the console's style sheets and scripts under URLs with a fingerprint, so that browsers cache them forever."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from pathlib import Path

import django
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound

_CONSOLE_FILES = Path(__file__).parent / "static"
_FOLDERS = (Path(django.__file__).parent / "contrib" / "admin" / "static", _CONSOLE_FILES)


def _fingerprint() -> str:
    """A digest of the console's files and Django's version."""
    digest = hashlib.sha256(django.__version__.encode())
    for file in sorted(path for path in _CONSOLE_FILES.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


URL = f"/operator/static/{_fingerprint()}/"


@cache
def _files() -> dict[str, Path]:
    """Name in the URL → file. Only these files are served, so a name cannot escape the folders."""
    return {
        file.relative_to(folder).as_posix(): file for folder in _FOLDERS for file in folder.rglob("*") if file.is_file()
    }


def serve(request: HttpRequest, name: str) -> HttpResponse:
    """A file of Django's admin or, below `operator/`, of the console; 404 for any other name."""
    file = _files().get(name)
    if file is None:
        return HttpResponseNotFound(content_type="text/plain")
    content_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return HttpResponse(file.read_bytes(), content_type=content_type, headers=headers)
