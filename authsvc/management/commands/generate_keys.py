"""`manage.py generate_keys` prints a new value for JWT_KEYS with one signing key."""

from __future__ import annotations

from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandParser

from tokens.jwt import signing_keys


class Command(BaseCommand):
    help = "Print a new value for AUTH_JWT_KEYS: a JSON array with one signing key."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--algorithm", choices=signing_keys.ALGORITHMS, default="RS256", help="default: %(default)s"
        )

        parser.add_argument(
            "--beside-secret",
            action="store_true",
            help="AUTH_JWT_SECRET, which is printed as a key, keeps signing; the new key only verifies yet",
        )

    def handle(self, *, algorithm: str, beside_secret: bool, **_: Any) -> None:
        keys = [signing_keys.generate(algorithm=algorithm)]
        if beside_secret:
            keys = [signing_keys.secret_key(), keys[0] | {"key_ops": ["verify"]}]
        self.stdout.write(orjson.dumps(keys).decode())
