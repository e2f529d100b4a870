"""`manage.py changepassword` sets a user's password and ends all sessions and outstanding links."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from accounts.administration import user_administration
from accounts.administration.user_administration import UserChanges
from authsvc.management import user_lookup
from authsvc.management.service_command import ACTOR, ServiceCommand


class Command(ServiceCommand):
    help = "Set a user's password and end all sessions of the user."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="email address, phone number or id")
        parser.add_argument("--password-file", default="", help="its first line is the password; - is standard input")

    def handle(self, *_: Any, user: str, password_file: str, **__: Any) -> None:
        found_user = user_lookup.get(user)
        changes = UserChanges(password=self.new_password(file=password_file))
        user_administration.update(found_user.id, changes, actor=ACTOR, caller=self.caller(), at=timezone.now())
        self.stdout.write(f"{found_user.id} has a new password")
