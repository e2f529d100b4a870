"""Errors of sign-in with an external identity, linking and unlinking."""

from __future__ import annotations

from accounts import errors as account_errors
from authsvc.errors import ApiError, UnexpectedFailure, ValidationFailed
from tokens.sessions.errors import UserBanned


class AmbiguousAccount(UnexpectedFailure):
    """The verified addresses belong to more than one account."""

    def __init__(self, domain: str) -> None:
        super().__init__(f"Multiple accounts with the same email address in the same linking domain detected: {domain}")


class IdentityNotCreated(UnexpectedFailure):
    """Concurrent requests changed the account during the sign-in."""

    message = "Error creating identity"


class ProviderEmailNotVerified(ApiError):
    """The account was created or updated, but its address must be verified before the user can sign in."""

    status = 422
    error_code = "provider_email_needs_verification"

    def __init__(self, provider: str, *, is_mailed: bool) -> None:
        action = (
            f"A confirmation email has been sent to your {provider} email"
            if is_mailed
            else f"Verify the email with {provider} in order to sign in"
        )
        super().__init__(f"Unverified email with {provider}. {action}")


class LinkedEmailNotVerified(ApiError):
    """The identity was linked, but its address must be verified first."""

    status = 422
    error_code = "email_not_confirmed"

    def __init__(self, provider: str) -> None:
        super().__init__(
            f"Unverified email with {provider}. A confirmation email has been sent to your {provider} email"
        )


class LinkedEmailExists(ApiError):
    """The identity to be linked has an address that belongs to another account."""

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
    hint = "The path ends with `identity_id` of one of the user's identities, not with its `id`."


class SingleIdentity(ApiError):
    status = 422
    error_code = "single_identity_not_deletable"
    message = "User must have at least 1 identity after unlinking"


class IdentityNotFound(ApiError):
    """The identity does not exist, or belongs to another user."""

    status = 422
    error_code = "identity_not_found"
    message = "Identity doesn't exist"


class NoFreeEmail(ApiError):
    """Every address that could replace the account's belongs to another account."""

    status = 422
    error_code = "email_conflict_identity_not_deletable"
    message = "Unable to unlink identity due to email conflict"


class LinkingNeedsAal2(ApiError):
    """A user with a verified factor links or unlinks an identity from a session at aal1."""

    status = 403
    error_code = "insufficient_aal"
    message = "AAL2 session is required to link or unlink identities when MFA is enabled"


class AddressChangeNeedsProof(ApiError):
    """Unlinking would change the account's address, which needs a proof that the request cannot carry."""

    status = 400
    error_code = "reauthentication_needed"
    message = "Change the email address of the account before unlinking its identity"


class LastContactNeedsProof(ApiError):
    """Unlinking would remove the last email address or phone, to which the proof of a later change is sent."""

    status = 400
    error_code = "reauthentication_needed"
    message = "Add another email address or phone before unlinking the last one"


class ManualLinkingDisabled(ApiError):
    status = 404
    error_code = "manual_linking_disabled"
    message = "Manual linking is disabled"


class UnexpectedAudience(ApiError):
    status = 403
    error_code = "unexpected_audience"
    message = "Token audience doesn't match request audience"


EXTERNAL_IDENTITY = (
    *account_errors.EMAIL_REQUEST_ERRORS,
    account_errors.MetadataTooLarge,
    account_errors.SignupDisabled,
    UserBanned,
    ProviderEmailNotVerified,
    AmbiguousAccount,
    IdentityNotCreated,
    account_errors.UserNotFound,
    IdentityAlreadyLinked,
    IdentityOfAnotherUser,
    LinkedEmailExists,
    LinkedEmailNotVerified,
    LinkingNeedsAal2,
)
"""Errors of signing in, or linking, with an external identity."""
