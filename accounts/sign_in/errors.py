"""Errors of sign-in by password, magic link and one-time code."""

from __future__ import annotations

from authsvc.errors import ApiError, UnprocessableInput, ValidationFailed


class OnlyOneIdentifierOnLogin(ValidationFailed):
    message = "Only an email address or phone number should be provided on login."


class IdentifierMissing(ValidationFailed):
    message = "missing email or phone"


class EmailLoginsDisabled(ApiError):
    status = 422
    error_code = "email_provider_disabled"
    message = "Email logins are disabled"


class PhoneLoginsDisabled(ApiError):
    status = 422
    error_code = "phone_provider_disabled"
    message = "Phone logins are disabled"


class InvalidCredentials(ApiError):
    """Unknown account, account without password, or wrong password; the error does not reveal which."""

    status = 400
    error_code = "invalid_credentials"
    message = "Invalid login credentials"


class EmailNotConfirmed(ApiError):
    status = 400
    error_code = "email_not_confirmed"
    message = "Email not confirmed"


class PhoneNotConfirmed(ApiError):
    status = 400
    error_code = "phone_not_confirmed"
    message = "Phone not confirmed"


class OnlyOneIdentifierOnOtp(ValidationFailed):
    message = "Only an email address or phone number should be provided"


class IdentifierMissingOnOtp(ValidationFailed):
    message = "One of email or phone must be set"


class ChannelWithoutPhone(ValidationFailed):
    message = "Channel should only be specified with Phone OTP"


class OtpDisabled(ApiError):
    status = 422
    error_code = "otp_disabled"
    message = "Signups not allowed for otp"


class PhoneOtpDisabled(ApiError):
    status = 400
    error_code = "phone_provider_disabled"
    message = "Unsupported phone provider"


class MagicLinkAddressMissing(UnprocessableInput):
    message = "Password recovery requires an email"


class MagicLinkDisabled(ApiError):
    status = 422
    error_code = "email_provider_disabled"
    message = "Login with magic link is disabled"


class PasswordAttemptRejected(ApiError):
    """A hook rejected the verification of a password, with its own message if it has one."""

    status = 400
    error_code = "invalid_credentials"
    message = "Further password verification attempts will be rejected."
