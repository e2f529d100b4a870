"""Errors of passkeys."""

from __future__ import annotations

from authsvc.errors import ApiError, UnexpectedFailure, UnprocessableInput, ValidationFailed


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
    """The settings do not define the relying party."""

    message = "Failed to initialize WebAuthn"


class ChallengeIdMissing(ValidationFailed):
    message = "challenge_id is required"


class ChallengeIdMalformed(ValidationFailed):
    message = "challenge_id must be a valid UUID"
    hint = "Send `challenge_id` of the response that contains the options."


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


class CredentialNotVerified(ApiError):
    """The credential did not verify, or there is no such passkey: the error is the same."""

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
    """There is no such passkey, or it belongs to another user."""

    status = 404
    error_code = "validation_failed"
    message = "Passkey not found"


class PasskeyNameMissing(ValidationFailed):
    message = "friendly_name is required"


class PasskeyNameTooLong(ValidationFailed):
    message = "friendly_name must be 120 characters or less"


CREDENTIAL = (
    RelyingPartyUnknown,
    ChallengeIdMissing,
    ChallengeIdMalformed,
    CredentialMissing,
    PasskeyChallengeNotFound,
    PasskeyChallengeExpired,
    CredentialMalformed,
    CredentialNotVerified,
)
"""Errors of every endpoint that takes the credential of a browser."""
