"""The hook that may refuse a new user, and receives each one that is stored.

It is asked for users that sign up, are invited, or come from a provider or wallet; not for users that an administrator
creates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID, uuid4

from accounts.users import metadata_limits
from accounts.users.records import UserRecord
from authsvc.caller import Caller


class UserCreationHook(Protocol):
    """`check` and `announce` call another program, and must run outside of transactions."""

    def check(self, user: UserRecord, *, caller: Caller) -> None:
        """Raise the HookError of a hook that refuses the user, who has no role, identities and times yet."""

    def is_announced(self) -> bool:
        """True if `announce` calls the hook. Runs no statement."""

    def announce(self, user: UserRecord, *, caller: Caller) -> None:
        """Tell the hook of a stored user. Raises HookError; the user remains."""


hook: UserCreationHook | None = None
"""Set by `AppConfig.ready()` of the hooks."""


def check(
    *,
    email: str = "",
    phone: str = "",
    provider: str = "",
    user_metadata: Mapping[str, Any],
    caller: Caller,
) -> UUID:
    """Ask the hook before a user is created, and return the id with which to store the user.

    `provider` is empty for an anonymous user. Call it outside of transactions, once the request is known to create a
    user. Raises HookError, and before that MetadataTooLarge, with which the user could not be stored.
    """
    metadata_limits.check_user_metadata(user_metadata)
    user_id = uuid4()
    if hook is not None:
        app_metadata = {"provider": provider, "providers": [provider]} if provider else {}
        user = UserRecord(
            id=user_id,
            aud=caller.audience,
            role="",
            email=email,
            phone=phone,
            password_hash="",
            app_metadata_json=json.dumps(app_metadata),
            user_metadata_json=json.dumps(dict(user_metadata)),
            is_anonymous=not provider,
        )
        hook.check(user, caller=caller)
    return user_id


def is_announced() -> bool:
    """True if `announce` has an effect, so that a user who is not known yet has to be read."""
    return hook is not None and hook.is_announced()


def announce(user: UserRecord, *, caller: Caller) -> None:
    """Tell the hook of a user that the request has created. Call it after the last transaction. Raises HookError."""
    if hook is not None:
        hook.announce(user, caller=caller)
