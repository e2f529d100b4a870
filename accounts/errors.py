"""What can be wrong with an address, a password, a sign-up, a sign-in or a proof."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from authsvc.errors import ApiError, UnexpectedFailure, UnprocessableInput, ValidationFailed

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


# POST /token with a password


# GET and POST /verify


class CodeExpired(ApiError):
    """Wrong, used or too old, or nobody has this address: nobody is told which."""

    status = 403
    error_code = "otp_expired"
    message = "Token has expired or is invalid"


# POST /otp, /magiclink, /recover, /resend


class RecoveryAddressMissing(ValidationFailed):
    message = "Password recovery requires an email"


class MailRequestsDisabled(ApiError):
    """Recovery and resending while sign-in by email is off."""

    status = 400
    error_code = "email_provider_disabled"
    message = "Email logins are disabled"


# POST /admin/generate_link


class LinkTypeUnknown(ValidationFailed):
    def __init__(self, type: str) -> None:
        super().__init__(f"Invalid email action link type requested: {type}")


class UserWithEmailNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User with this email not found"


class SecureEmailChangeOff(ValidationFailed):
    """The present address confirms nothing where changes are confirmed by the new one alone."""

    message = "Enable secure email change to generate link for current email"


# /admin/users


class UserIdNotAUuid(ApiError):
    status = 404
    error_code = "validation_failed"
    message = "user_id must be an UUID"


class FactorIdNotAUuid(ApiError):
    status = 404
    error_code = "validation_failed"
    message = "factor_id must be an UUID"


class UserNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User not found"


class FactorNotFound(ApiError):
    """No such factor, or another user's."""

    status = 404
    error_code = "mfa_factor_not_found"
    message = "Factor not found"


class EmailOrPhoneRequired(ValidationFailed):
    message = "Cannot create a user without either an email or phone"


class PhoneRegistered(ApiError):
    status = 422
    error_code = "phone_exists"
    message = "Phone number already registered by another user"


class PasswordAndHash(ValidationFailed):
    message = "Only a password or a password hash should be provided"


class PasswordHashInvalid(ValidationFailed):
    """Of no form that can be read, or too costly to compute."""

    message = "Invalid password hash"


class UserIdMalformed(ValidationFailed):
    message = "ID must conform to the uuid v4 format"


class UserIdNil(ValidationFailed):
    message = "ID cannot be a nil uuid"


class UserIdMismatch(ValidationFailed):
    message = "ID in the body must match the ID in the path"


class UserIdTaken(ApiError):
    status = 422
    error_code = "user_already_exists"
    message = "A user with this id has already been registered"


class RoleTooLong(ValidationFailed):
    message = "The role is too long"


class AudienceTooLong(ValidationFailed):
    message = "The audience is too long"


class BanDurationInvalid(ValidationFailed):
    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid format for ban duration: {reason}")


class FactorNameTaken(ApiError):
    status = 422
    error_code = "mfa_factor_name_conflict"

    def __init__(self, name: str) -> None:
        super().__init__(f'A factor with the friendly name "{name}" for this user already exists')


class FactorPhoneTaken(ApiError):
    status = 422
    error_code = "mfa_verified_factor_exists"
    message = "A verified phone factor already exists, unenroll the existing factor to continue"


class AuditQueryInvalid(ValidationFailed):
    def __init__(self, query: str) -> None:
        super().__init__(f"Invalid query scope: {query}")


# Identities at providers


# PUT /user and GET /reauthenticate


class EmailExists(ApiError):
    status = 422
    error_code = "email_exists"
    message = "A user with this email address has already been registered"


class PhoneExists(ApiError):
    status = 422
    error_code = "phone_exists"
    message = "A user with this phone number has already been registered"


# Operators


class NothingToSendTo(UnprocessableInput):
    message = "This account has no email address that a recovery mail could go to"


class NothingToConfirm(UnprocessableInput):
    message = "This account has no address or number that waits for confirmation"


class OwnAccount(UnprocessableInput):
    message = "Your own account is changed by another operator"


# /factors


class TotpEnrolmentDisabled(ApiError):
    status = 422
    error_code = "mfa_totp_enroll_not_enabled"
    message = "MFA enroll is disabled for TOTP"


class TotpVerificationDisabled(ApiError):
    status = 422
    error_code = "mfa_totp_verify_not_enabled"
    message = "MFA verification is disabled for TOTP"


class PhoneEnrolmentDisabled(ApiError):
    status = 422
    error_code = "mfa_phone_enroll_not_enabled"
    message = "MFA enroll is disabled for Phone"


class PhoneVerificationDisabled(ApiError):
    status = 422
    error_code = "mfa_phone_verify_not_enabled"
    message = "MFA verification is disabled for Phone"


class WebAuthnEnrolmentDisabled(ApiError):
    status = 422
    error_code = "mfa_webauthn_enroll_not_enabled"
    message = "MFA enroll is disabled for WebAuthn"


class WebAuthnVerificationDisabled(ApiError):
    status = 422
    error_code = "mfa_webauthn_verify_not_enabled"
    message = "MFA verification is disabled for WebAuthn"


class FactorTypeUnknown(ValidationFailed):
    message = "factor_type needs to be totp, phone, or webauthn"


class FactorNameTooLong(ValidationFailed):
    message = "The friendly name is too long"


class IssuerTooLong(ValidationFailed):
    """No QR code would hold the address made of it."""

    message = "The issuer is too long"


class FactorPhoneMissing(ValidationFailed):
    message = "Phone number required to enroll Phone factor"


class TooManyFactors(ApiError):
    status = 422
    error_code = "too_many_enrolled_mfa_factors"
    message = "Maximum number of verified factors reached, unenroll to continue"


class FactorNeedsAal2(ApiError):
    """A further factor, from a session that has not shown one of those there are."""

    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 required to enroll a new factor"


class UnenrolmentNeedsAal2(ApiError):
    status = 422
    error_code = "insufficient_aal"
    message = "AAL2 required to unenroll verified factor"


class FactorCodeMissing(ValidationFailed):
    message = "Code needs to be non-empty"


class FactorChallengeNotFound(ApiError):
    status = 422
    error_code = "mfa_factor_not_found"
    message = "MFA factor with the provided challenge ID not found"


class FactorChallengeElsewhere(ApiError):
    """A challenge made from another address, or used before."""

    status = 422
    error_code = "mfa_ip_address_mismatch"
    message = "Challenge and verify IP addresses mismatch."


class FactorChallengeExpired(ApiError):
    """Too old, or answered wrongly too often."""

    status = 422
    error_code = "mfa_challenge_expired"

    def __init__(self, challenge_id: UUID) -> None:
        super().__init__(
            f"MFA challenge {challenge_id} has expired, verify against another challenge or create a new challenge."
        )


class TotpCodeInvalid(ApiError):
    """Wrong, or of a time step that is spent."""

    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid TOTP code entered"


class PhoneCodeInvalid(ApiError):
    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid MFA Phone code entered"


class NoGatewayForFactor(UnexpectedFailure):
    message = "Failed to get SMS provider"


class NoFactors(ApiError):
    """All factors of somebody are to go, and there are none."""

    status = 404
    error_code = "mfa_factor_not_found"
    message = "This user has no second factor"


class RecoveryCodesDisabled(ApiError):
    status = 422
    error_code = "mfa_recovery_codes_not_enabled"
    message = "MFA recovery codes are disabled"


class RecoveryCodesNeedFactor(ApiError):
    """There is nothing yet that the codes could stand in for."""

    status = 422
    error_code = "mfa_factor_not_found"
    message = "A verified factor is required to create recovery codes"


class RecoveryCodesNeedAal2(ApiError):
    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 required to create recovery codes"


class RecoveryCodeInvalid(ApiError):
    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid recovery code entered"


# WebAuthn as a factor


class WebAuthnAnswerMissing(ValidationFailed):
    message = "WebAuthn config required"


class WebAuthnTypeUnknown(ValidationFailed):
    message = "WebAuthn type must be create or request"


class CredentialResponseMissing(ValidationFailed):
    message = "credential_response required"


class CredentialResponseMalformed(ValidationFailed):
    message = "Invalid credential_response"


class WebAuthnResponseInvalid(ApiError):
    """Readable, but no answer to this challenge by this user's authenticator."""

    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid WebAuthn response"


# /passkeys


class PasskeysDisabled(ApiError):
    status = 404
    error_code = "passkey_disabled"
    message = "Passkeys are disabled"


class PasskeysOfSsoUser(UnprocessableInput):
    message = "SSO users cannot register passkeys"


class PasskeysNeedAal2(ApiError):
    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 session is required to manage passkeys when MFA is enabled"


class TooManyPasskeys(ApiError):
    status = 422
    error_code = "too_many_passkeys"
    message = "Maximum number of passkeys reached"


class RelyingPartyUnknown(UnexpectedFailure):
    """The settings do not say for whom credentials are made."""

    message = "Failed to initialize WebAuthn"


class ChallengeIdMissing(ValidationFailed):
    message = "challenge_id is required"


class ChallengeIdMalformed(ValidationFailed):
    message = "challenge_id must be a valid UUID"


class CredentialMissing(ValidationFailed):
    message = "credential is required"


class PasskeyChallengeNotFound(ApiError):
    status = 400
    error_code = "webauthn_challenge_not_found"
    message = "Challenge not found or already used"


class PasskeyChallengeExpired(ApiError):
    status = 400
    error_code = "webauthn_challenge_expired"
    message = "Challenge has expired"


class CredentialMalformed(ApiError):
    status = 400
    error_code = "webauthn_verification_failed"
    message = "Invalid credential response"


class CredentialRefused(ApiError):
    """Not verified; that nobody has such a passkey looks the same."""

    status = 400
    error_code = "webauthn_verification_failed"
    message = "Credential verification failed"


class CredentialExists(ApiError):
    status = 422
    error_code = "webauthn_credential_exists"
    message = "This credential is already registered"


class EmailNotConfirmedForPasskey(ApiError):
    status = 403
    error_code = "email_not_confirmed"
    message = "Email not confirmed"


class PhoneNotConfirmedForPasskey(ApiError):
    status = 403
    error_code = "phone_not_confirmed"
    message = "Phone not confirmed"


class PasskeyNotFound(ApiError):
    """No such passkey, or another user's."""

    status = 404
    error_code = "validation_failed"
    message = "Passkey not found"


class PasskeyNameMissing(ValidationFailed):
    message = "friendly_name is required"


class PasskeyNameTooLong(ValidationFailed):
    message = "friendly_name must be 120 characters or less"
