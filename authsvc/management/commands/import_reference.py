"""`manage.py import_reference SOURCE` imports users, sessions and more from a reference server's database."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from accounts.passwords import hash_kinds
from authsvc.importer import import_run
from authsvc.importer.report import ImportRejected
from authsvc.management.progress import Progress
from authsvc.management.service_command import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Copy users, identities, sessions, refresh tokens, factors, one-time tokens and flows from the database of a"
        " reference server, which is only read. The import can be repeated; an interrupted run changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "source",
            help="postgres://user@host:port/database; set the password in PGPASSWORD or ~/.pgpass",
        )
        parser.add_argument("--schema", default="auth", help="schema of the source (default: %(default)s)")
        parser.add_argument("--dry-run", action="store_true", help="do everything but commit")
        parser.add_argument("--with-audit-log", action="store_true", help="import the audit trail too")
        parser.add_argument("--all-instances", action="store_true", help="import users of other instances too")
        parser.add_argument(
            "--delete-missing-users", action="store_true", help="delete users here that the source does not have"
        )
        parser.add_argument("--overwrite", action="store_true", help="import even if users have signed in here since")

    def handle(self, *, source: str, schema: str, dry_run: bool, **options: Any) -> None:
        request = import_run.ImportRequest(
            dsn=source,
            schema=schema,
            dry_run=dry_run,
            all_instances=options["all_instances"],
            with_audit_log=options["with_audit_log"],
            delete_missing_users=options["delete_missing_users"],
            overwrite=options["overwrite"],
        )
        try:
            report = import_run.run(request, show=_progress)
        except ImportRejected as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted: nothing was written; run it again", returncode=130) from None
        if not dry_run:
            hash_kinds.survey(at=timezone.now(), is_due=True)
        for line in report.lines():
            self.stdout.write(line)
        for warning in report.warnings:
            self.stderr.write(f"warning: {warning}")
        if report.lost:
            raise CommandError(f"{report.lost:,} sessions, refresh tokens or passkeys of imported users were skipped")
        self.stdout.write("dry run: nothing was written" if dry_run else "done")


def _progress(noun: str, total: int | None) -> Progress:
    # self.stderr would end each update of the bar with a newline.
    return Progress(sys.stderr, noun=noun, total=total)
