"""The operators of the console, and the access that their roles give."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from authsvc import audit, conf

MAX_REASON_LENGTH = 500


class Access(IntEnum):
    """The actions that an operator may run in the console; each level includes those before it."""

    VIEWER = 1
    """Reads. Personal data is hidden until the operator asks for it, which the audit trail records."""
    SUPPORT = 2
    """Helps ordinary users: no deletion, no roles, no configuration."""
    ADMIN = 3


def access_of(role: str | None) -> Access | None:
    """The access of a user's role; None for a role without access to the console."""
    config = conf.current()
    if not role:
        return None
    if role in config.jwt.admin_roles:
        return Access.ADMIN
    # A wrong setting must not give every user access.
    name = None if role == config.jwt.default_group_name else config.console.roles.get(role)
    return Access[name.upper()] if name else None


def roles() -> tuple[str, ...]:
    """All roles with access to the console."""
    config = conf.current()
    named = [role for role in config.console.roles if access_of(role) is not None]
    return tuple(dict.fromkeys([*config.jwt.admin_roles, *named]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The signed-in user of the console, read from the database at every request.

    Has the attributes that Django's admin expects of a user. There are no permissions per table: each `OperatorAdmin`
    defines the actions of its page, and each action the access that it needs.
    """

    id: UUID
    session_id: UUID
    role: str
    access: Access
    name: str
    """Email address or phone number, shown in the page's header."""
    is_active: ClassVar = True
    is_staff: ClassVar = True
    is_authenticated: ClassVar = True
    is_anonymous: ClassVar = False
    has_usable_password: ClassVar = False
    """Hides the admin's link to a password form."""

    @property
    def pk(self) -> UUID:
        return self.id

    def get_username(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name

    def has_perm(self, _permission: str, _row: object = None) -> bool:
        return False

    def has_module_perms(self, _app_label: str) -> bool:
        return False


def operator_of(request: HttpRequest) -> Operator:
    """The operator of a request that has passed `OperatorSite.has_permission`."""
    return cast(Operator, request.user)


def require(request: HttpRequest, access: Access) -> None:
    """Raises PermissionDenied for an operator with less access."""
    if operator_of(request).access < access:
        raise PermissionDenied


def reason_of(request: HttpRequest) -> str:
    """The reason that the operator typed for an action; empty if there is none."""
    return request.POST.get("reason", "").replace("\0", "").strip()[:MAX_REASON_LENGTH]


def actor_of(request: HttpRequest) -> audit.Administrator:
    """The operator as actor in the audit trail, with the reason of the request."""
    operator = operator_of(request)
    return audit.Administrator(
        role=operator.role, user_id=operator.id, address=operator.name, reason=reason_of(request)
    )
