"""`manage.py import_reference SOURCE`: users, sessions and all from a reference server's database."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from authsvc.importer import passes
from authsvc.importer.errors import ImportRefused
from authsvc.management.progress import Progress
from authsvc.management.service_command import ServiceCommand


class Command(ServiceCommand):
    help = (
        "Copy users, identities, sessions, refresh tokens, factors, one-time tokens and flows from the database of a"
        " reference server, which is only read. Can be repeated; an interrupted run has changed nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "source",
            help="postgres://user@host:port/database; the password better comes from PGPASSWORD or ~/.pgpass",
        )
        parser.add_argument("--schema", default="auth", help="where its tables are (default: %(default)s)")
        parser.add_argument("--dry-run", action="store_true", help="do everything but commit")
        parser.add_argument("--with-audit-log", action="store_true", help="take the audit trail too")
        parser.add_argument("--all-instances", action="store_true", help="take users of other instances too")
        parser.add_argument(
            "--delete-missing-users", action="store_true", help="delete users here that the source does not have"
        )
        parser.add_argument(
            "--overwrite", action="store_true", help="take the source's state even if people have signed in here since"
        )

    def handle(self, *, source: str, schema: str, dry_run: bool, **options: Any) -> None:
        wish = passes.Wish(
            dsn=source,
            schema=schema,
            dry_run=dry_run,
            all_instances=options["all_instances"],
            with_audit_log=options["with_audit_log"],
            delete_missing_users=options["delete_missing_users"],
            overwrite=options["overwrite"],
        )
        try:
            report = passes.run(wish, show=_progress)
        except ImportRefused as refused:
            raise CommandError(str(refused)) from None
        except KeyboardInterrupt:
            raise CommandError("interrupted: nothing was written; run it again", returncode=130) from None
        for line in report.lines():
            self.stdout.write(line)
        for warning in report.warnings:
            self.stderr.write(f"warning: {warning}")
        if report.lost:
            raise CommandError(f"{report.lost:,} sessions or refresh tokens of users that were taken were skipped")
        self.stdout.write("dry run: nothing was written" if dry_run else "done")


def _progress(what: str, total: int | None) -> Progress:
    # Not self.stderr, which ends every piece of a bar with a line of its own.
    return Progress(sys.stderr, what=what, total=total)
