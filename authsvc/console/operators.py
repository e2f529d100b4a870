"""The operators of the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from authsvc import audit
from authsvc.operator_access import Access

MAX_REASON_LENGTH = 500


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
