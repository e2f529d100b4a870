"""`manage.py write_reference` writes the generated documents, or checks that they are current."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from authsvc.api.openapi import generator, views
from authsvc.management.reference import endpoints, errors
from authsvc.management.reference import settings as reference_of_settings
from authsvc.management.service_command import ServiceCommand

DOCUMENTS: dict[str, tuple[Path, Callable[[], bytes]]] = {
    "openapi": (views.FILE, lambda: generator.dump(generator.build())),
    "endpoints": (Path("docs/reference/endpoints.md"), lambda: endpoints.page().encode()),
    "errors": (Path("docs/reference/errors.md"), lambda: errors.page().encode()),
    "settings": (Path("docs/reference/settings.md"), lambda: reference_of_settings.page().encode()),
    "example": (Path(".env.example"), lambda: reference_of_settings.example().encode()),
}
"""Name → file (relative to the checkout, or absolute) and a function that returns its content."""


class Command(ServiceCommand):
    help = "Write the OpenAPI document, the references and .env.example from the source."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("documents", nargs="*", choices=[[], *DOCUMENTS], help="documents to write; default: all")
        parser.add_argument("--check", action="store_true", help="write nothing; fail if a document is not current")

    def handle(self, *_: Any, **options: Any) -> None:
        stale = []
        for name in options["documents"] or DOCUMENTS:
            file, generate = DOCUMENTS[name]
            path, content = settings.BASE_DIR / file, generate()
            if path.is_file() and path.read_bytes() == content:
                continue
            stale.append(name)
            if not options["check"]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                self.stdout.write(f"written: {path}")
        if stale and options["check"]:
            raise CommandError(f"out of date: {', '.join(stale)}. Run make reference")
