"""`manage.py deleteuser` permanently deletes a user and all data that belongs to the user."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from accounts.users import deletion
from authsvc.management import user_lookup
from authsvc.management.service_command import ACTOR, ServiceCommand


class Command(ServiceCommand):
    help = "Permanently delete a user. Audit entries are kept; see erase_user."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="email address, phone number or id")
        parser.add_argument("--aud", default="", help="audience of the address; default: AUTH_JWT_AUD")

    def handle(self, *_: Any, user: str, aud: str, **__: Any) -> None:
        caller = self.caller(audience=aud)
        found_user = user_lookup.get(user, audience=caller.audience)
        deletion.delete(found_user.id, soft=False, actor=ACTOR, caller=caller, at=timezone.now())
        self.stdout.write(f"{found_user.id} is deleted")
