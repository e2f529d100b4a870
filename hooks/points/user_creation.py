"""The hooks before and after the creation of a user."""

from __future__ import annotations

from accounts.users import records
from accounts.users.records import UserRecord
from authsvc.caller import Caller
from authsvc.conf.sections.hooks import Hook
from hooks.errors import HookFailed
from hooks.invocation import invocation

_NEVER = "0001-01-01T00:00:00Z"


class UserCreationHooks:
    """Implements `accounts.users.creation_hook.UserCreationHook`."""

    def check(self, user: UserRecord, *, caller: Caller) -> None:
        if invocation.is_enabled(Hook.BEFORE_USER_CREATED):
            shown = {**records.render_user(user), "created_at": _NEVER, "updated_at": _NEVER}
            _call(Hook.BEFORE_USER_CREATED, shown, caller=caller)

    def is_announced(self) -> bool:
        return invocation.is_enabled(Hook.AFTER_USER_CREATED)

    def announce(self, user: UserRecord, *, caller: Caller) -> None:
        if self.is_announced():
            _call(Hook.AFTER_USER_CREATED, records.render_user(user), caller=caller)


def _call(hook: Hook, user: dict[str, object], *, caller: Caller) -> None:
    try:
        invocation.invoke(hook, {"user": user}, address=caller.address)
    except HookFailed as error:
        if not invocation.tolerates(hook, error):
            raise
