"""`manage.py apple_secret` prints the client secret for Sign in with Apple."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from authsvc import conf
from authsvc.conf import durations
from authsvc.management.service_command import ServiceCommand
from oauthproviders.providers import apple

_MAX_FILE_BYTES = 65_536


class Command(ServiceCommand):
    help = "Print a value for AUTH_EXTERNAL_APPLE_SECRET, signed with a key from developer.apple.com."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--team-id", required=True, help="ten characters, shown in the Apple developer account")
        parser.add_argument("--key-id", required=True, help="ten characters, shown with the key")
        parser.add_argument("--key-file", required=True, help="AuthKey_<key id>.p8, which can be downloaded once")
        parser.add_argument("--client-id", default="", help="default: the first of AUTH_EXTERNAL_APPLE_CLIENT_ID")
        parser.add_argument("--expires", default="4380h", help="lifetime, at most 4382h; default: %(default)s")

    def handle(
        self, *_: Any, team_id: str, key_id: str, key_file: str, client_id: str, expires: str, **__: Any
    ) -> None:
        configured = conf.current().providers["apple"].client_ids
        client_id = client_id or (configured[0] if configured else "")
        if not client_id:
            raise CommandError("--client-id: required, because AUTH_EXTERNAL_APPLE_CLIENT_ID is empty")
        try:
            life = durations.parse(expires)
        except ValueError as error:
            raise CommandError(f"--expires: {error}") from None
        if not 0 < life.total_seconds() <= apple.MAX_SECRET_LIFETIME.total_seconds():
            raise CommandError("--expires: Apple accepts a lifetime of at most six months")
        at = timezone.now()
        try:
            secret = apple.create_client_secret(
                team_id=team_id,
                key_id=key_id,
                client_id=client_id,
                private_key=_text(key_file),
                lifetime=life,
                at=at,
            )
        except ValueError as error:
            raise CommandError(f"--key-file: {error}") from None
        self.stdout.write(secret)
        self.print_notice(f"It expires on {at + life:%Y-%m-%d}. The service logs a warning from 30 days before.")


def _text(path: str) -> str:
    try:
        with Path(path).open(encoding="ascii") as file:
            return file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise CommandError(f"--key-file: {error.strerror or 'cannot be read'}") from None
