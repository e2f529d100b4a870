"""`manage.py export_user` exports the personal data of a user as one JSON document."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction
from django.utils import timezone

from authsvc import personal_data
from authsvc.api.renderers import rfc3339
from authsvc.management import user_lookup
from authsvc.management.progress import Progress
from authsvc.management.service_command import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Export the personal data of a user as one JSON document, from one consistent snapshot of all tables. "
        "Hashes, keys, codes and tokens are omitted."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="email address, phone number or id")
        parser.add_argument("-o", "--output", default="", help="new file with mode 0600; default: standard output")

    def handle(self, *_: Any, user: str, output: str, **__: Any) -> None:
        with transaction.atomic(durable=True):
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                # A pager or a slow pipe may stop the output for long.
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            data_subject = user_lookup.data_subject(user_lookup.get(user))
            progress = Progress(sys.stderr, noun="rows")
            with self._open(output) as write:
                tables = personal_data.export_tables(data_subject)
                exported_at = rfc3339(timezone.now())
                for piece in personal_data.render_document(
                    data_subject, tables, exported_at=exported_at, on_row=progress.advance
                ):
                    write(piece)
            progress.finish()

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[Callable[[str], object]]:
        if not path:
            yield lambda text: self.stdout.write(text, ending="")
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from None
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                yield stream.write
        except BaseException:
            Path(path).unlink()  # an incomplete document could be mistaken for a complete one
            raise
