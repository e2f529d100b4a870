"""`manage.py createsuperuser` creates an operator or promotes a user to operator."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from accounts.administration import user_administration
from accounts.administration.user_administration import NewUser, UserChanges
from accounts.passwords import policy
from accounts.users import identifiers
from authsvc import operator_access
from authsvc.conf.sources import process_environment
from authsvc.management import user_lookup
from authsvc.management.service_command import ACTOR, ServiceCommand

_ROLE = "svc_admin"


class Command(ServiceCommand):
    help = (
        "Create an operator: a confirmed user whose role gives access to the admin API and the operator console. "
        "Prompts for missing values; --noinput takes them from DJANGO_SUPERUSER_EMAIL and DJANGO_SUPERUSER_PASSWORD."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--email", default="")
        parser.add_argument("--password-file", default="", help="its first line is the password; - is standard input")
        parser.add_argument("--noinput", "--no-input", action="store_true", help="never prompt")
        parser.add_argument(
            "--role", default=_ROLE, help="one of AUTH_JWT_ADMIN_ROLES or AUTH_OPERATOR_ROLES; default: %(default)s"
        )
        parser.add_argument(
            "--promote",
            action="store_true",
            help="promote an existing user; the new password ends all sessions of the user",
        )

    def handle(
        self, *_: Any, email: str, password_file: str, noinput: bool, role: str, promote: bool, **__: Any
    ) -> None:
        roles = operator_access.roles()
        if role not in roles:
            raise CommandError(f"{role} is not an operator role: use one of {', '.join(roles)} with --role")
        if noinput:
            email = email or _variable("EMAIL", option="--email")
        address = identifiers.email(email or self.prompt("Email address: "))
        caller = self.caller()
        existing = user_lookup.find(address, audience=caller.audience)
        if existing is not None and not promote:
            raise CommandError("a user with this address exists; use --promote to make the user an operator")
        if noinput and not password_file:
            password = _variable("PASSWORD", option="--password-file")
        else:
            password = self.new_password(file=password_file)
        if existing is not None:
            changes = UserChanges(role=role, password=password, email_confirm=True)
            user_administration.update(existing.id, changes, actor=ACTOR, caller=caller, at=timezone.now())
        else:
            policy.validate_password(password)
            new_user = NewUser(email=address, password=password, role=role, email_confirm=True)
            user_administration.create(new_user, actor=ACTOR, caller=caller, at=timezone.now())
        self.stdout.write(f"{address} is now an operator ({role})")


def _variable(name: str, *, option: str) -> str:
    """The value of a variable that Django's command of this name reads too."""
    variable = f"DJANGO_SUPERUSER_{name}"
    value = process_environment().get(variable, "")
    if not value:
        raise CommandError(f"--noinput needs {option} or the variable {variable}")
    return value
