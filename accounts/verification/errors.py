"""Errors of `/verify` and `/resend`."""

from __future__ import annotations

from authsvc.errors import ApiError, UnprocessableInput, ValidationFailed


class VerificationTypeMissing(ValidationFailed):
    message = "Verify requires a verification type"


class TokenMissing(ValidationFailed):
    """A link without its token."""

    message = "Verify requires a token or a token hash"


class TokenOrHashMissing(ValidationFailed):
    """Neither a code nor the token of a link, or both."""

    message = "Verify requires either a token or a token hash"


class OnlyOneIdentifierOnVerify(ValidationFailed):
    message = "Only an email address or phone number should be provided on verify"


class InvalidEmailFormat(UnprocessableInput):
    message = "Invalid email format"


class OnlyTokenHashAllowed(ValidationFailed):
    message = "Only the token_hash and type should be provided"


class InvalidEmailVerificationType(ValidationFailed):
    message = "Invalid email verification type"


class LinkExpired(ApiError):
    """Unknown, used or too old: nobody is told which."""

    status = 403
    error_code = "otp_expired"
    message = "Email link is invalid or has expired"


class PasswordRequiredToConfirm(UnprocessableInput):
    """An account without a password is confirmed by a client that could have sent one."""

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
