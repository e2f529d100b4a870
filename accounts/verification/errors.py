"""Errors of `/verify` and `/resend`."""

from __future__ import annotations

from authsvc.errors import ApiError, UnprocessableInput, ValidationFailed


class VerificationTypeMissing(ValidationFailed):
    message = "Verify requires a verification type"


class TokenMissing(ValidationFailed):
    """The link has no token."""

    message = "Verify requires a token or a token hash"


class TokenOrHashMissing(ValidationFailed):
    """The request has neither a code nor the token of a link, or both."""

    message = "Verify requires either a token or a token hash"


class OnlyOneIdentifierOnVerify(ValidationFailed):
    message = "Only an email address or phone number should be provided on verify"


class InvalidEmailFormat(UnprocessableInput):
    message = "Invalid email format"


class OnlyTokenHashAllowed(ValidationFailed):
    message = "Only the token_hash and type should be provided"


class InvalidEmailVerificationType(ValidationFailed):
    message = "Invalid email verification type"


class CannotBeImpersonated(UnprocessableInput):
    """An operator cannot view the application as this user; the message states the reason."""


class LinkExpired(ApiError):
    """The link is unknown, used or too old; the error does not reveal which."""

    status = 403
    error_code = "otp_expired"
    message = "Email link is invalid or has expired"


class PasswordRequiredToConfirm(UnprocessableInput):
    """A client that can send a password confirms an account without one."""

    message = "Signup requires a valid password"


class PhoneRequestsDisabled(ApiError):
    status = 400
    error_code = "phone_provider_disabled"
    message = "Phone logins are disabled"


class ResendTypeMissing(ValidationFailed):
    message = "Missing one of these types: signup, email_change, sms, phone_change"


class ResendNeedsEmail(ValidationFailed):
    message = "Type provided requires an email address"


class ResendNeedsPhone(ValidationFailed):
    message = "Type provided requires a phone number"


class OnlyOneIdentifierOnResend(ValidationFailed):
    message = "Only an email address or phone number should be provided."


class IdentifierMissingOnResend(ValidationFailed):
    message = "Missing email address or phone number"
