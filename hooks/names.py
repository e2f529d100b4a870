"""The hooks, by the name that their payload carries."""

from __future__ import annotations

from enum import StrEnum


class Hook(StrEnum):
    """The value is `metadata.name` of the payload."""

    CUSTOM_ACCESS_TOKEN = "customize-access-token"
    SEND_EMAIL = "send-email"
    SEND_SMS = "send-sms"
    MFA_VERIFICATION_ATTEMPT = "mfa-verification"
    PASSWORD_VERIFICATION_ATTEMPT = "password-verification"
    BEFORE_USER_CREATED = "before-user-created"
    AFTER_USER_CREATED = "after-user-created"
