"""The password grant (RFC 6749 §4.3, kept for first-party clients)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from accounts import errors, schemas
from accounts.inputs import PasswordInput
from accounts.sign_in import password
from authsvc.api.openapi.document import ErrorTypes
from authsvc.caller import Caller
from tokens.api import payloads


class PasswordGrant:
    """Sign in with an email address or phone number and the password."""

    input = PasswordInput
    response_schema: ClassVar[Any] = schemas.SessionByPassword
    documented_errors: ClassVar[ErrorTypes] = (
        errors.InvalidCredentials,
        errors.IdentifierMissing,
        errors.OnlyOneIdentifierOnLogin,
        errors.PasswordTooLong,
        errors.EmailLoginsDisabled,
        errors.PhoneLoginsDisabled,
        errors.EmailNotConfirmed,
        errors.PhoneNotConfirmed,
        errors.UserBannedAtSignIn,
    )

    def exchange(self, body: PasswordInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        done = password.with_password(
            email=body.email or "", phone=body.phone or "", password=body.password or "", caller=caller, at=at
        )
        weak = done.weakness and {"message": done.weakness.message, "reasons": list(done.weakness.reasons)}
        return payloads.token_response(done.tokens, user=done.user, weak_password=weak)
