"""`manage.py createuser` creates a user without sending an email."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from accounts.administration import user_administration
from accounts.administration.user_administration import NewUser
from accounts.passwords import policy
from authsvc import conf
from authsvc.management.service_command import ACTOR, ServiceCommand


class Command(ServiceCommand):
    help = "Create a user without sending an email. Prints the user's id."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("password", help="visible in the process list; - is the first line of standard input")
        parser.add_argument("role", nargs="?", default="", help="default: AUTH_JWT_DEFAULT_GROUP_NAME")
        parser.add_argument("--admin", action="store_true", help="without a role: AUTH_JWT_ADMIN_GROUP_NAME")
        parser.add_argument("--confirm", action="store_true", help="mark the address as confirmed")
        parser.add_argument("--aud", default="", help="default: AUTH_JWT_AUD")

    def handle(
        self, *_: Any, email: str, password: str, role: str, admin: bool, confirm: bool, aud: str, **__: Any
    ) -> None:
        config = conf.current()
        password = self.new_password(file="-") if password == "-" else password
        policy.validate_password(password)
        new_user = NewUser(
            email=email,
            password=password,
            role=role or (config.jwt.admin_group_name if admin else None),
            email_confirm=confirm or config.mailer.autoconfirm,
        )
        created = user_administration.create(new_user, actor=ACTOR, caller=self.caller(audience=aud), at=timezone.now())
        self.stdout.write(str(created.id))
