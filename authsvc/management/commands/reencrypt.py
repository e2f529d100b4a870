"""`manage.py reencrypt` encrypts all protected columns with the present key, so that old keys can be removed."""

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
        "running, and the command can be interrupted and repeated. Afterwards old keys are no longer needed."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        is_enabled = conf.current().database.encrypt
        if not is_enabled:
            self.stdout.write("encryption is disabled: only columns that are always encrypted are processed")
        unreadable = 0
        for column in encrypted_columns.columns():
            if not (is_enabled or column.always):
                continue
            progress = Progress(sys.stderr, noun=f"rows of {column.table}")
            result = encrypted_columns.reencrypt(column, report_progress=progress.advance)
            progress.finish()
            self.stdout.write(f"{column}: {result.reencrypted} encrypted, {result.unreadable} unreadable")
            unreadable += result.unreadable
        if unreadable:
            raise CommandError("some values need keys that are missing in AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS")
