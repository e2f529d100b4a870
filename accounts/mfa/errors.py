"""Errors of second factors."""

from __future__ import annotations

from uuid import UUID

from authsvc.errors import ApiError, UnexpectedFailure, UnprocessableInput, ValidationFailed


class FactorIdNotAUuid(ApiError):
    status = 404
    error_code = "validation_failed"
    message = "factor_id must be an UUID"
    hint = "The path contains the `id` of one of the user's factors; GET /user lists them."


class FactorNotFound(ApiError):
    """There is no such factor, or it belongs to another user."""

    status = 404
    error_code = "mfa_factor_not_found"
    message = "Factor not found"


class FactorNameTaken(ApiError):
    status = 422
    error_code = "mfa_factor_name_conflict"

    def __init__(self, name: str) -> None:
        super().__init__(f'A factor with the friendly name "{name}" for this user already exists')


class FactorPhoneTaken(ApiError):
    status = 422
    error_code = "mfa_verified_factor_exists"
    message = "A verified phone factor already exists, unenroll the existing factor to continue"


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
    """The URI does not fit into a QR code."""

    message = "The issuer is too long"


class FactorPhoneMissing(ValidationFailed):
    message = "Phone number required to enroll Phone factor"


class TooManyFactors(ApiError):
    status = 422
    error_code = "too_many_enrolled_mfa_factors"
    message = "Maximum number of verified factors reached, unenroll to continue"


class FactorNeedsAal2(ApiError):
    """A user with a verified factor enrols another one from a session at aal1."""

    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 required to enroll a new factor"


class UnenrolmentNeedsAal2(ApiError):
    status = 422
    error_code = "insufficient_aal"
    message = "AAL2 required to unenroll verified factor"


class LastFactor(UnprocessableInput):
    message = "The console requires a second factor. Add another one first."


class FactorCodeMissing(ValidationFailed):
    message = "Code needs to be non-empty"


class FactorChallengeNotFound(ApiError):
    status = 422
    error_code = "mfa_factor_not_found"
    message = "MFA factor with the provided challenge ID not found"


class FactorChallengeAddressMismatch(ApiError):
    """The challenge was requested from another IP address, or has been used."""

    status = 422
    error_code = "mfa_ip_address_mismatch"
    message = "Challenge and verify IP addresses mismatch."


class FactorChallengeExpired(ApiError):
    """The challenge is too old, or there were too many wrong responses."""

    status = 422
    error_code = "mfa_challenge_expired"

    def __init__(self, challenge_id: UUID) -> None:
        super().__init__(
            f"MFA challenge {challenge_id} has expired, verify against another challenge or create a new challenge."
        )


class TotpCodeInvalid(ApiError):
    """The code is wrong, or its time step has been used."""

    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid TOTP code entered"


class PhoneCodeInvalid(ApiError):
    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid MFA Phone code entered"


class NoGatewayForFactor(UnexpectedFailure):
    message = "Failed to get SMS provider"


class RecoveryCodesDisabled(ApiError):
    status = 422
    error_code = "mfa_recovery_codes_not_enabled"
    message = "MFA recovery codes are disabled"


class RecoveryCodesNeedFactor(ApiError):
    """The user has no verified factor that the codes could replace."""

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


class WebAuthnResponseMissing(ValidationFailed):
    message = "WebAuthn config required"


class WebAuthnTypeUnknown(ValidationFailed):
    message = "WebAuthn type must be create or request"


class CredentialResponseMissing(ValidationFailed):
    message = "credential_response required"


class CredentialResponseMalformed(ValidationFailed):
    message = "Invalid credential_response"


class WebAuthnResponseInvalid(ApiError):
    """The response is readable, but does not verify for this challenge and user."""

    status = 422
    error_code = "mfa_verification_failed"
    message = "Invalid WebAuthn response"


FACTOR_PATH = (FactorIdNotAUuid, FactorNotFound)
"""Errors of every endpoint with a factor id in its path."""
VERIFICATION_DISABLED = (
    TotpVerificationDisabled,
    PhoneVerificationDisabled,
    WebAuthnVerificationDisabled,
    FactorTypeUnknown,
    NoGatewayForFactor,
)


class FactorAttemptRejected(ApiError):
    """A hook rejected the verification of a code, with its own message if it has one. All sessions have ended."""

    status = 403
    error_code = "mfa_verification_rejected"
    message = "Further MFA verification attempts will be rejected."
