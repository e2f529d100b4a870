"""QuerySets of the models of accounts: the look-ups that need no hand-written SQL."""

from __future__ import annotations

from typing import Any, Self, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

_ModelT_co = TypeVar("_ModelT_co", bound=Model, covariant=True)


class AccountQuerySet(QuerySet[_ModelT_co]):
    """Rows of an account."""

    def delete_rows(self) -> int:
        """Delete the rows with one statement and return their number; the database deletes what refers to them."""
        return self._raw_delete(self.db)


class UserQuerySet(AccountQuerySet[_ModelT_co]):
    def update(self, **columns: Any) -> int:
        """Update the rows, except soft-deleted ones, which never change again. Returns the number of updated rows.

        A sign-in or a change that read the row before the deletion therefore cannot undo it.
        """
        return super(UserQuerySet, self.filter(deleted_at=None)).update(**columns)

    def erase_deleted(self, **columns: Any) -> int:
        """Update soft-deleted rows, for the erasure of the personal data that they still contain."""
        return super(UserQuerySet, self.filter(deleted_at__isnull=False)).update(**columns)

    def with_email(self, email: str) -> Self:
        """The user with this normalised address, unless SSO manages them."""
        return self.filter(email=email, is_sso_user=False)

    def with_phone(self, phone: str) -> Self:
        """The user with this normalised number, unless SSO manages them."""
        return self.filter(phone=phone, is_sso_user=False)

    def lock(self, user_id: UUID) -> bool:
        """Lock a row until the caller's transaction is over; False when there is no such user."""
        return self.select_for_update().filter(id=user_id).values_list("pk").first() is not None


class IdentityQuerySet(AccountQuerySet[_ModelT_co]):
    def with_email(self, email: str) -> Self:
        """Identities with this normalised address, except those of SSO."""
        return self.filter(email=email).exclude(provider__startswith="sso:")


class FactorQuerySet(AccountQuerySet[_ModelT_co]):
    def verified(self) -> Self:
        return self.filter(status="verified")

    def unverified(self) -> Self:
        return self.filter(status="unverified")
