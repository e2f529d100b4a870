"""`manage.py mint_token` prints a token for a program that calls the admin API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from authsvc import conf
from authsvc.conf import durations
from authsvc.management.service_command import ServiceCommand
from tokens.jwt import access_tokens


class Command(ServiceCommand):
    help = "Print a service token, signed with the signing key of access tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--role", required=True, help="service_role, or another of AUTH_JWT_ADMIN_ROLES")
        parser.add_argument("--expires", required=True, help="lifetime, such as 1h, 720h or 2h45m")

    def handle(self, *_: Any, role: str, expires: str, **__: Any) -> None:
        try:
            life = durations.parse(expires)
        except ValueError as error:
            raise CommandError(f"--expires: {error}") from None
        if life < timedelta(seconds=1):
            raise CommandError("--expires: the lifetime must be at least one second")
        if not role:
            raise CommandError("--role: a role is required")
        if role not in conf.current().jwt.admin_roles:
            self.print_notice(f"{role} is not in AUTH_JWT_ADMIN_ROLES: this service will reject the token")
        self.stdout.write(access_tokens.issue_service_token(role=role, lifetime=life, at=timezone.now()))
