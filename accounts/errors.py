"""What can be wrong with an address, a password, a sign-up, a sign-in or a proof."""

from __future__ import annotations

from collections.abc import Sequence

from authsvc.core.errors import ApiError, UnexpectedFailure, UnprocessableInput, ValidationFailed

# What these two say is the same with a token as with a password or a code.
from tokens.errors import UserBanned as UserBanned  # noqa: PLC0414  (offered here too)
from tokens.errors import UserBannedAtSignIn as UserBannedAtSignIn  # noqa: PLC0414

# Addresses, numbers, passwords


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
    """More than 72 bytes, of which some imported hashes would not see the rest."""

    message = "Password cannot be longer than 72 characters"


class WeakPassword(ApiError):
    """`reasons` are the stable words for programs, `sentences` say the same to people."""

    status = 422
    error_code = "weak_password"

    def __init__(self, reasons: Sequence[str], sentences: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(sentences))

    def extra(self) -> dict[str, object]:
        return {"weak_password": {"reasons": list(self.reasons)}}


# POST /signup


class SignupDisabled(ApiError):
    status = 422
    error_code = "signup_disabled"
    message = "Signups not allowed for this instance"


class PasswordRequired(ValidationFailed):
    message = "Signup requires a valid password"


class OnlyOneIdentifierOnSignup(ValidationFailed):
    message = "Only an email address or phone number should be provided on signup."


class PkceNotForPhone(ValidationFailed):
    message = "PKCE not supported for phone signups"


class EmailSignupsDisabled(ApiError):
    status = 400
    error_code = "email_provider_disabled"
    message = "Email signups are disabled"


class PhoneSignupsDisabled(ApiError):
    status = 400
    error_code = "phone_provider_disabled"
    message = "Phone signups are disabled"


class UserAlreadyRegistered(ApiError):
    """The email address belongs to a confirmed account, and the service confirms by itself."""

    status = 422
    error_code = "user_already_exists"
    message = "User already registered"


class PhoneAlreadyRegistered(ApiError):
    """The same for a phone number, under the status its clients know."""

    status = 400
    error_code = "user_already_exists"
    message = "User already registered"


class AnonymousSignInsDisabled(ApiError):
    status = 422
    error_code = "anonymous_provider_disabled"
    message = "Anonymous sign-ins are disabled"


# POST /token with a password


class OnlyOneIdentifierOnLogin(ValidationFailed):
    message = "Only an email address or phone number should be provided on login."


class EmailLoginsDisabled(ApiError):
    status = 422
    error_code = "email_provider_disabled"
    message = "Email logins are disabled"


class PhoneLoginsDisabled(ApiError):
    status = 422
    error_code = "phone_provider_disabled"
    message = "Phone logins are disabled"


class IdentifierMissing(ValidationFailed):
    message = "missing email or phone"


class InvalidCredentials(ApiError):
    """Unknown account, account without password or wrong password: nobody is told which."""

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


# GET and POST /verify


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


class CodeExpired(ApiError):
    """Wrong, used or too old, or nobody has this address: nobody is told which."""

    status = 403
    error_code = "otp_expired"
    message = "Token has expired or is invalid"


class PasswordRequiredToConfirm(UnprocessableInput):
    """An account without a password is confirmed by a client that could have sent one."""

    message = "Signup requires a valid password"


# POST /otp, /magiclink, /recover, /resend


class OnlyOneIdentifierOnOtp(ValidationFailed):
    message = "Only an email address or phone number should be provided"


class ChannelWithoutPhone(ValidationFailed):
    message = "Channel should only be specified with Phone OTP"


class IdentifierMissingOnOtp(ValidationFailed):
    message = "One of email or phone must be set"


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


class RecoveryAddressMissing(ValidationFailed):
    message = "Password recovery requires an email"


class MailRequestsDisabled(ApiError):
    """Recovery and resending while sign-in by email is off."""

    status = 400
    error_code = "email_provider_disabled"
    message = "Email logins are disabled"


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


class SmsProviderMissing(UnexpectedFailure):
    """A text message is asked for and no gateway is set up."""

    message = "Unable to get SMS provider"
