"""`manage.py preview_mail TYPE` prints an email with sample values, or saves it to the development inbox."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from authsvc import conf, languages
from mailer.inbox import previews, storage

RECIPIENT = "preview@example.com"


def _type_name(text: str) -> str:
    """The type as it is written in EMAIL_TYPES; `magic-link` and `MAGIC_LINK` are the same."""
    name = text.replace("-", "_").lower()
    return next((type for type in previews.EMAIL_TYPES if type.lower() == name), text)


class Command(BaseCommand):
    help = "Print an email with sample values, rendered from the configured template."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        types = previews.EMAIL_TYPES
        parser.add_argument("type", metavar="TYPE", type=_type_name, choices=types, help=", ".join(types))
        parser.add_argument("--language", default="", help="language of the email, such as de")
        parser.add_argument("--text", action="store_true", help="print the plain text instead of the HTML")
        parser.add_argument("--to-inbox", action="store_true", help="save it to the development inbox instead")

    def handle(self, *, type: str, language: str, text: bool, to_inbox: bool, **_: Any) -> None:
        if to_inbox and not conf.current().mailer.dev_inbox_enabled:
            raise CommandError("the inbox is disabled: set AUTH_MAILER_DEV_INBOX_ENABLED=true")
        if language and language not in languages.offered():
            raise CommandError(f"{language} is not offered; the languages are {', '.join(languages.offered())}")
        preview = previews.render_preview(type, language)
        if preview.problem:
            self.stderr.write(preview.problem)
        if to_inbox:
            storage.save_message(
                channel="email",
                to=RECIPIENT,
                subject=preview.subject,
                html=preview.html,
                text=preview.text,
                message_id="preview",
            )
            self.stdout.write(f"{conf.current().api.external_url.rstrip('/')}/inbox/")
            return
        # On standard error, because the output may be redirected to an HTML file.
        self.stderr.write(f"Subject: {preview.subject}")
        self.stdout.write(preview.text if text else preview.html)
