"""The hooks that see each verification of a password or code, and may reject it."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from authsvc.caller import Caller


class AttemptHooks(Protocol):
    """The functions call another program, and must run outside of transactions.

    A rejection applies to correct and wrong values alike. It may end all sessions of the user.
    """

    def check_password(self, user_id: UUID, *, is_valid: bool, caller: Caller) -> None:
        """Raise an ApiError if the hook rejects the verification of a password."""

    def check_factor(self, user_id: UUID, factor_id: UUID, *, factor_type: str, is_valid: bool, caller: Caller) -> None:
        """Raise an ApiError if the hook rejects the verification of a code of a second factor."""


hooks: AttemptHooks | None = None
"""Set by `AppConfig.ready()` of the hooks."""
