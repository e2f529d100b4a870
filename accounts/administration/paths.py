"""The ids in the paths of administration."""

from __future__ import annotations

from uuid import UUID

from accounts.administration import errors
from accounts.mfa import errors as mfa_errors
from accounts.users import identifiers


def user_id(text: str) -> UUID:
    """Raises UserIdNotAUuid."""
    found = identifiers.uuid(text)
    if found is None:
        raise errors.UserIdNotAUuid
    return found


def factor_id(text: str) -> UUID:
    """Raises FactorIdNotAUuid."""
    found = identifiers.uuid(text)
    if found is None:
        raise mfa_errors.FactorIdNotAUuid
    return found
