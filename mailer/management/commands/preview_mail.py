"""`manage.py preview_mail KIND`: the mail of a kind with made-up values, printed or kept in the development inbox."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from authsvc import conf
from mailer.inbox import previews, storage

RECIPIENT = "preview@example.com"


class Command(BaseCommand):
    help = "Print the mail of a kind with made-up values, from the configured template."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("kind", metavar="KIND", choices=previews.KINDS, help=", ".join(previews.KINDS))
        parser.add_argument("--text", action="store_true", help="the plain text instead of the HTML")
        parser.add_argument("--to-inbox", action="store_true", help="keep it in the development inbox instead")

    def handle(self, *, kind: str, text: bool, to_inbox: bool, **_: Any) -> None:
        if to_inbox and not conf.current().mailer.dev_inbox_enabled:
            raise CommandError("there is no inbox: AUTH_MAILER_DEV_INBOX_ENABLED is not set")
        preview = previews.of(kind)
        if preview.problem:
            self.stderr.write(preview.problem)
        if to_inbox:
            storage.keep(
                channel="email",
                to=RECIPIENT,
                subject=preview.subject,
                html=preview.html,
                text=preview.text,
                message_id="preview",
            )
            self.stdout.write(f"{conf.current().api.external_url.rstrip('/')}/inbox/")
            return
        # Not among the output, which may go to a file and from there into a browser.
        self.stderr.write(f"Subject: {preview.subject}")
        self.stdout.write(preview.text if text else preview.html)
