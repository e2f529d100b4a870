"""Errors that several packages of accounts raise, and groups of them for the documentation of endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from authsvc.errors import (
    ApiError,
    EmailRateExceeded,
    EmailSentTooRecently,
    SmsGatewayMissing,
    SmsRateExceeded,
    SmsSentTooRecently,
    UnexpectedFailure,
    ValidationFailed,
)
from authsvc.messaging import MessageNotAccepted


class EmailRequired(ValidationFailed):
    message = "An email address is required"


class EmailTooLong(ValidationFailed):
    message = "An email address is too long"


class EmailInvalid(ValidationFailed):
    message = "Unable to validate email address: invalid format"


class PhoneInvalid(ValidationFailed):
    message = "Invalid phone number format (E.164 required)"


class ChannelInvalid(ValidationFailed):
    message = (
        "Invalid channel, supported values are 'sms' or 'whatsapp'. "
        "'whatsapp' is only supported if Twilio or Twilio Verify is used as the provider."
    )


class PasswordTooLong(ValidationFailed):
    """More than 72 bytes, the maximum of bcrypt."""

    message = "Password cannot be longer than 72 characters"


class MetadataTooLarge(ValidationFailed):
    """The user or app metadata of the account, or the data of an identity, would be larger than permitted."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"{name} must not be larger than {limit} bytes")


class PasswordTooWeak(ApiError):
    """The password violates the policy. `reasons` are stable codes for programs, `sentences` are for users."""

    status = 422
    error_code = "weak_password"

    def __init__(self, reasons: Sequence[str], sentences: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(sentences))

    def extra(self) -> dict[str, object]:
        return {"weak_password": {"reasons": list(self.reasons)}}


class BreachLookupFailed(UnexpectedFailure):
    """The breach look-up failed, and the operator has configured to refuse passwords in this case."""

    message = "Unable to perform password strength check with HaveIBeenPwned.org."


class EmailAddressNotAuthorized(ApiError):
    """The address is not in the operator's allow list."""

    status = 400
    error_code = "email_address_not_authorized"

    def __init__(self, address: str) -> None:
        super().__init__(f'Email address "{address}" cannot be used as it is not authorized')


class EmailAddressInvalid(ApiError):
    """The address is well-formed, but cannot receive mail."""

    status = 400
    error_code = "email_address_invalid"

    def __init__(self, address: str) -> None:
        super().__init__(f'Email address "{address}" is invalid')


class SignupDisabled(ApiError):
    status = 422
    error_code = "signup_disabled"
    message = "Signups not allowed for this instance"


class PasswordRequired(ValidationFailed):
    message = "Signup requires a valid password"


class UserAlreadyRegistered(ApiError):
    """The email address belongs to a confirmed account, and auto-confirm is on."""

    status = 422
    error_code = "user_already_exists"
    message = "User already registered"


class PhoneAlreadyRegistered(ApiError):
    """The phone belongs to a confirmed account, and auto-confirm is on. The status differs for existing clients."""

    status = 400
    error_code = "user_already_exists"
    message = "User already registered"


class CodeExpired(ApiError):
    """The code is wrong, used or too old, or no account has the address; the error does not reveal which."""

    status = 403
    error_code = "otp_expired"
    message = "Token has expired or is invalid"


class RecoveryAddressMissing(ValidationFailed):
    message = "Password recovery requires an email"


class MailRequestsDisabled(ApiError):
    """Recovery and resend while sign-in by email is disabled."""

    status = 400
    error_code = "email_provider_disabled"
    message = "Email logins are disabled"


class RecentSignInNeeded(ApiError):
    """The session is older than AUTH_SECURITY_REAUTHENTICATION_INTERVAL (without email and phone: 10 minutes)."""

    status = 400
    error_code = "reauthentication_needed"
    message = "This change requires a recent sign-in"


class UserNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User not found"


class EmailExists(ApiError):
    status = 422
    error_code = "email_exists"
    message = "A user with this email address has already been registered"


class PhoneExists(ApiError):
    status = 422
    error_code = "phone_exists"
    message = "A user with this phone number has already been registered"


EMAIL_FORMAT_ERRORS = (EmailRequired, EmailTooLong, EmailInvalid)
"""An address with an invalid format."""
RECIPIENT_ERRORS = (EmailAddressInvalid, EmailAddressNotAuthorized)
"""An address that cannot receive emails."""
EMAIL_DELIVERY_ERRORS = (*RECIPIENT_ERRORS, EmailRateExceeded, MessageNotAccepted)
EMAIL_REQUEST_ERRORS = (*EMAIL_DELIVERY_ERRORS, EmailSentTooRecently)
"""A requested email, of which one is allowed per interval."""
SMS_REQUEST_ERRORS = (ChannelInvalid, SmsGatewayMissing, SmsRateExceeded, SmsSentTooRecently, MessageNotAccepted)
NEW_PASSWORD_ERRORS = (PasswordTooLong, PasswordTooWeak, BreachLookupFailed)
CONTACT_CHANGE_ERRORS = (EmailExists, PhoneExists)
"""A confirmed email or phone that another user has taken since it was requested."""
