"""Style sheets and scripts of the console, served from where they are installed and kept by browsers for good."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from pathlib import Path

import django
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound

_OURS = Path(__file__).parent / "static"
_FOLDERS = (Path(django.__file__).parent / "contrib" / "admin" / "static", _OURS)


def _fingerprint() -> str:
    """Changes with every file: ours are read, Django's are those of its version."""
    digest = hashlib.sha256(django.__version__.encode())
    for file in sorted(path for path in _OURS.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


URL = f"/operator/static/{_fingerprint()}/"


@cache
def _files() -> dict[str, Path]:
    """Name in the URL → file. What is not listed here cannot be had, whatever dots and slashes a name has."""
    return {
        file.relative_to(folder).as_posix(): file for folder in _FOLDERS for file in folder.rglob("*") if file.is_file()
    }


def serve(request: HttpRequest, name: str) -> HttpResponse:
    """A file of the admin or, below `operator/`, of ours; 404 for any other name."""
    file = _files().get(name)
    if file is None:
        return HttpResponseNotFound(content_type="text/plain")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return HttpResponse(file.read_bytes(), content_type=kind, headers=headers)
