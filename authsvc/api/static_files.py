"""Serves style sheets and scripts under URLs with a fingerprint, so that browsers cache them forever."""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cached_property
from pathlib import Path

from django.http import HttpRequest, HttpResponse, HttpResponseNotFound

_SHARED_FOLDER = Path(__file__).parent / "static"


class StaticFiles:
    """The files of `own_folder`, shared ones, and those of further folders; `version` is the version of the latter."""

    def __init__(self, own_folder: Path, *further_folders: Path, version: str = "") -> None:
        self._own_folders = (_SHARED_FOLDER, own_folder)
        self._folders = (*further_folders, *self._own_folders)
        self._version = version

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the own and shared files and the version: 12 hex digits."""
        digest = hashlib.sha256(self._version.encode())
        for folder in self._own_folders:
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Name in the URL → file. Only these files are served, so a name cannot escape the folders."""
        return {
            file.relative_to(folder).as_posix(): file
            for folder in self._folders
            for file in folder.rglob("*")
            if file.is_file()
        }

    def serve(self, request: HttpRequest, name: str) -> HttpResponse:
        """The file with this name; 404 for any other name."""
        file = self._files.get(name)
        if file is None:
            return HttpResponseNotFound(content_type="text/plain")
        content_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return HttpResponse(file.read_bytes(), content_type=content_type, headers=headers)
