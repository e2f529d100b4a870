"""Errors of sign-up."""

from __future__ import annotations

from authsvc.errors import ApiError, ValidationFailed


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


class AnonymousSignInsDisabled(ApiError):
    status = 422
    error_code = "anonymous_provider_disabled"
    message = "Anonymous sign-ins are disabled"
    hint = (
        "The body has neither email nor phone, so it asks for an anonymous user. Send email or phone, and password, or"
        " set AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED."
    )
