"""The hooks that see each verification of a password or of a code of a second factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from accounts.mfa.errors import FactorAttemptRejected
from accounts.sign_in.errors import PasswordAttemptRejected
from authsvc.caller import Caller
from authsvc.conf.sections.hooks import Hook
from hooks.errors import HookFailed, InvalidHookResponse
from hooks.invocation import invocation
from hooks.invocation.invocation import NO_RESPONSE
from tokens.sessions import revocation

_MEMBERS = {"decision": str, "message": str, "should_logout_user": bool}


class VerificationAttemptHooks:
    """Implements `accounts.users.attempt_hooks.AttemptHooks`."""

    def check_password(self, user_id: UUID, *, is_valid: bool, caller: Caller) -> None:
        response = _ask(Hook.PASSWORD_VERIFICATION_ATTEMPT, {"user_id": str(user_id), "valid": is_valid}, caller=caller)
        if response.get("decision") == "reject":
            if response.get("should_logout_user"):
                revocation.revoke_all_sessions(user_id, reason="hook_rejected")
            raise PasswordAttemptRejected(response.get("message") or None)

    def check_factor(self, user_id: UUID, factor_id: UUID, *, factor_type: str, is_valid: bool, caller: Caller) -> None:
        payload = {
            "user_id": str(user_id),
            "factor_id": str(factor_id),
            "factor_type": factor_type,
            "valid": is_valid,
        }
        response = _ask(Hook.MFA_VERIFICATION_ATTEMPT, payload, caller=caller)
        if response.get("decision") == "reject":
            revocation.revoke_all_sessions(user_id, reason="hook_rejected")
            raise FactorAttemptRejected(response.get("message") or None)


def _ask(hook: Hook, payload: Mapping[str, Any], *, caller: Caller) -> Mapping[str, Any]:
    """The response of the hook; empty if the hook is disabled, has no response, or failed and that is tolerated."""
    if not invocation.is_enabled(hook):
        return {}
    try:
        return invocation.invoke(hook, payload, read=_read, address=caller.address)
    except HookFailed as error:
        if not invocation.tolerates(hook, error):
            raise
        return {}


def _read(response: Any) -> Mapping[str, Any]:
    """The members of a response, each of its type or absent. Raises InvalidHookResponse."""
    members: Mapping[str, Any] = {} if response is NO_RESPONSE or response is None else response
    for name, type_ in _MEMBERS.items():
        if not isinstance(members.get(name), type_ | None):
            raise InvalidHookResponse
    return members
