"""Errors of administration."""

from __future__ import annotations

from accounts.errors import UserNotFound
from authsvc.errors import ApiError, UnprocessableInput, ValidationFailed


class UserIdNotAUuid(ApiError):
    status = 404
    error_code = "validation_failed"
    message = "user_id must be an UUID"
    hint = "The path contains the `id` of a user, not an email or phone; GET /admin/users?filter= finds users."


class LinkTypeUnknown(ValidationFailed):
    def __init__(self, type: str) -> None:
        super().__init__(f"Invalid email action link type requested: {type}")


class UserWithEmailNotFound(ApiError):
    status = 404
    error_code = "user_not_found"
    message = "User with this email not found"


class SecureEmailChangeOff(ValidationFailed):
    """Secure email change is disabled, so that the new address alone confirms a change."""

    message = "Enable secure email change to generate link for current email"


class EmailOrPhoneRequired(ValidationFailed):
    message = "Cannot create a user without either an email or phone"


class PhoneRegistered(ApiError):
    status = 422
    error_code = "phone_exists"
    message = "Phone number already registered by another user"


class PasswordAndHash(ValidationFailed):
    message = "Only a password or a password hash should be provided"


class PasswordHashInvalid(ValidationFailed):
    """The format of the hash is unknown, or its parameters are too expensive."""

    message = "Invalid password hash"


class UserIdMalformed(ValidationFailed):
    message = "ID must conform to the uuid v4 format"
    hint = "Send a UUID such as 0f1e2d3c-4b5a-4678-9abc-def012345678 as `id`, or none."


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
    hint = "Send `none`, or numbers with the units h, m and s such as 24h or 1h30m; a day is 24h."

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid format for ban duration: {reason}")


class AuditQueryInvalid(ValidationFailed):
    def __init__(self, query: str) -> None:
        super().__init__(f"Invalid query scope: {query}")


class NothingToSendTo(UnprocessableInput):
    message = "This account has no email address to which an email can be sent"


class RecipientBanned(UnprocessableInput):
    """Bulk messages skip banned users."""

    message = "This user is banned"


class RecipientDeleted(UnprocessableInput):
    message = "This user is deleted"


class NothingToConfirm(UnprocessableInput):
    message = "This account has no email address or phone that waits for confirmation"


class OwnAccount(UnprocessableInput):
    message = "Your own account is changed by another operator"


class NothingChanged(UnprocessableInput):
    message = "The values are unchanged"


class NoFactors(ApiError):
    """A reset of second factors found none."""

    status = 404
    error_code = "mfa_factor_not_found"
    message = "This user has no second factor"


USER_PATH = (UserIdNotAUuid, UserNotFound)
"""Errors of every endpoint with a user id in its path."""
