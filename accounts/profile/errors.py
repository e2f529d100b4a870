"""Errors of `PUT /user` and `GET /reauthenticate`."""

from __future__ import annotations

from authsvc.errors import ApiError, UnprocessableInput, ValidationFailed


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


class NotRecovering(UnprocessableInput):
    """The session did not begin with a recovery link."""

    message = "Request a new link to reset the password"


class UserManagedBySso(ApiError):
    status = 422
    error_code = "user_sso_managed"
    message = "Updating email, phone, password of a SSO account only possible via SSO"


class OperatorAccount(UnprocessableInput):
    """The last operator must not lock all operators out."""

    message = "The account of an operator is deleted by another operator"


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


class NoContact(ValidationFailed):
    message = "Reauthentication requires the user to have an email or a phone number"
    hint = "Sign in again at the provider, and add an email or phone with PUT /user within 10 minutes."


class EmailNotVerified(ApiError):
    status = 422
    error_code = "email_not_confirmed"
    message = "Please verify your email first."


class PhoneNotVerified(ApiError):
    status = 422
    error_code = "phone_not_confirmed"
    message = "Please verify your phone first."


class AudienceMismatch(ApiError):
    status = 400
    error_code = "validation_failed"
    message = "Token audience doesn't match request audience"
