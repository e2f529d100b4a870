"""`manage.py reencrypt`: all that is encrypted, or should be, under the present key, so that an old one can go."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError

from authsvc import conf
from authsvc.management.progress import Progress
from authsvc.management.service_command import ServiceCommand
from authsvc.security import encrypted_columns


class Command(ServiceCommand):
    help = (
        "Encrypt passwords, session keys and factor secrets with the present encryption key. The server may be "
        "running; interrupted, it can be run again. Afterwards no value needs another key."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        if not conf.current().database.encrypt:
            raise CommandError("encryption is off: set AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT")
        left = 0
        for column in encrypted_columns.columns():
            progress = Progress(sys.stderr, what=f"rows of {column.table}")
            outcome = encrypted_columns.reencrypt(column, note=progress.advance)
            progress.finish()
            self.stdout.write(f"{column}: {outcome.done} encrypted, {outcome.unreadable} unreadable")
            left += outcome.unreadable
        if left:
            raise CommandError("some values are under keys that are not in AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS")
