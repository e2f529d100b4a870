"""What can be wrong with an address, a password, a sign-up, a sign-in or a proof."""

from __future__ import annotations

from collections.abc import Sequence

from authsvc.errors import ApiError, UnexpectedFailure, UnprocessableInput, ValidationFailed

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
    """It falls short of the policy; `reasons` are the stable words for programs, `sentences` say the same to people."""

    status = 422
    error_code = "weak_password"

    def __init__(self, reasons: Sequence[str], sentences: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(" ".join(sentences))

    def extra(self) -> dict[str, object]:
        return {"weak_password": {"reasons": list(self.reasons)}}


class BreachLookupFailed(UnexpectedFailure):
    """Nobody could say whether a password is known from breaches, and then the operator wants none accepted."""

    message = "Unable to perform password strength check with HaveIBeenPwned.org."


# Recipients of mail


class EmailAddressNotAuthorized(ApiError):
    """The operator has said who may be mailed, and this is somebody else."""

    status = 400
    error_code = "email_address_not_authorized"

    def __init__(self, address: str) -> None:
        super().__init__(f'Email address "{address}" cannot be used as it is not authorized')


class EmailAddressInvalid(ApiError):
    """Of the right form, but no mail would arrive there."""

    status = 400
    error_code = "email_address_invalid"

    def __init__(self, address: str) -> None:
        super().__init__(f'Email address "{address}" is invalid')


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


# /admin/users


class UserNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User not found"


# Identities at providers


class AmbiguousAccount(UnexpectedFailure):
    """The proved addresses belong to more than one account, and nobody can tell which is meant."""

    def __init__(self, domain: str) -> None:
        super().__init__(f"Multiple accounts with the same email address in the same linking domain detected: {domain}")


class IdentityNotCreated(UnexpectedFailure):
    """Others were first, twice."""

    message = "Error creating identity"


class ProviderEmailNotVerified(ApiError):
    """Whoever signs in elsewhere has an account now, but has yet to prove its address."""

    status = 422
    error_code = "provider_email_needs_verification"

    def __init__(self, provider: str, *, is_mailed: bool) -> None:
        what_next = (
            f"A confirmation email has been sent to your {provider} email"
            if is_mailed
            else f"Verify the email with {provider} in order to sign in"
        )
        super().__init__(f"Unverified email with {provider}. {what_next}")


class LinkedEmailNotVerified(ApiError):
    """An identity is linked that brings an address along, which is yet to be proved."""

    status = 422
    error_code = "email_not_confirmed"

    def __init__(self, provider: str) -> None:
        super().__init__(
            f"Unverified email with {provider}. A confirmation email has been sent to your {provider} email"
        )


class LinkedEmailExists(ApiError):
    """An identity is to be linked that brings an address along, which is somebody else's."""

    status = 400
    error_code = "email_exists"
    message = "A user with this email address has already been registered"


class InviteNotFound(ApiError):
    status = 404
    error_code = "invite_not_found"
    message = "Invite not found"


class InvitedEmailMismatch(ValidationFailed):
    message = "Invited email does not match emails from external provider"


class IdentityAlreadyLinked(ApiError):
    status = 422
    error_code = "identity_already_exists"
    message = "Identity is already linked"


class IdentityOfAnotherUser(ApiError):
    status = 422
    error_code = "identity_already_exists"
    message = "Identity is already linked to another user"


class IdentityIdNotAUuid(ApiError):
    status = 404
    error_code = "validation_failed"
    message = "identity_id must be an UUID"


class UnexpectedAudience(ApiError):
    status = 403
    error_code = "unexpected_audience"
    message = "Token audience doesn't match request audience"


class SingleIdentity(ApiError):
    status = 422
    error_code = "single_identity_not_deletable"
    message = "User must have at least 1 identity after unlinking"


class IdentityNotFound(ApiError):
    """No such identity, or another user's."""

    status = 422
    error_code = "identity_not_found"
    message = "Identity doesn't exist"


class NoFreeEmail(ApiError):
    """Every address that could take the place of the account's is somebody else's by now."""

    status = 422
    error_code = "email_conflict_identity_not_deletable"
    message = "Unable to unlink identity due to email conflict"


# PUT /user and GET /reauthenticate


class AppMetadataNotAllowed(ApiError):
    status = 403
    error_code = "not_admin"
    message = "Updating app_metadata requires admin privileges"


class InsufficientAal(ApiError):
    status = 401
    error_code = "insufficient_aal"
    message = "AAL2 session is required to update email or password when MFA is enabled."


class PasswordOfAnonymousUser(UnprocessableInput):
    message = "Updating password of an anonymous user without an email or phone is not allowed"


class UserManagedBySso(ApiError):
    status = 422
    error_code = "user_sso_managed"
    message = "Updating email, phone, password of a SSO account only possible via SSO"


class EmailExists(ApiError):
    status = 422
    error_code = "email_exists"
    message = "A user with this email address has already been registered"


class PhoneExists(ApiError):
    status = 422
    error_code = "phone_exists"
    message = "A user with this phone number has already been registered"


class ReauthenticationNeeded(ApiError):
    status = 400
    error_code = "reauthentication_needed"
    message = "Password update requires reauthentication"


class NonceInvalid(ApiError):
    status = 422
    error_code = "reauthentication_not_valid"
    message = "Nonce has expired or is invalid"


class NonceWithoutAddress(ApiError):
    status = 422
    error_code = "reauthentication_not_valid"
    message = "Reauthentication requires an email or a phone number"


class CurrentPasswordRequired(ApiError):
    status = 400
    error_code = "current_password_required"
    message = "Current password required when setting new password."


class CurrentPasswordInvalid(ApiError):
    status = 400
    error_code = "current_password_invalid"
    message = "Current password required when setting new password."


class SamePassword(ApiError):
    status = 422
    error_code = "same_password"
    message = "New password should be different from the old password."


class NothingToReauthenticateBy(ValidationFailed):
    message = "Reauthentication requires the user to have an email or a phone number"


class EmailNotVerified(ApiError):
    status = 422
    error_code = "email_not_confirmed"
    message = "Please verify your email first."


class PhoneNotVerified(ApiError):
    status = 422
    error_code = "phone_not_confirmed"
    message = "Please verify your phone first."


class MagicLinkDisabled(ApiError):
    status = 422
    error_code = "email_provider_disabled"
    message = "Login with magic link is disabled"


class ManualLinkingDisabled(ApiError):
    status = 404
    error_code = "manual_linking_disabled"
    message = "Manual linking is disabled"
