"""The password grant (RFC 6749 §4.3, kept for first-party clients)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, TypedDict

from accounts import errors as account_errors
from accounts.sign_in import errors, password
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from tokens.api import payloads
from tokens.api.schemas import Session
from tokens.errors import UserBannedAtSignIn


class PasswordInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("password",)
    email: str | None = None
    phone: str | None = None
    password: str | None = None


class WeakPassword(TypedDict):
    """The reasons why a correct password should be changed."""

    message: str
    reasons: list[Literal["length", "characters", "pwned"]]


class SessionByPassword(Session):
    """A session started with a password."""

    weak_password: WeakPassword | None
    """The weakness of the password under the current policy."""


class PasswordGrant:
    """Sign in with an email address or phone number and the password."""

    input = PasswordInput
    response_schema: ClassVar[Any] = SessionByPassword
    documented_errors: ClassVar[ErrorTypes] = (
        errors.InvalidCredentials,
        errors.IdentifierMissing,
        errors.OnlyOneIdentifierOnLogin,
        account_errors.PasswordTooLong,
        errors.EmailLoginsDisabled,
        errors.PhoneLoginsDisabled,
        errors.EmailNotConfirmed,
        errors.PhoneNotConfirmed,
        UserBannedAtSignIn,
    )

    def exchange(self, body: PasswordInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        result = password.sign_in_with_password(
            email=body.email or "", phone=body.phone or "", password=body.password or "", caller=caller, at=at
        )
        weak = result.weakness and {"message": result.weakness.message, "reasons": list(result.weakness.reasons)}
        return payloads.token_response(result.tokens, user=result.user, weak_password=weak)
