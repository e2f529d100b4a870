"""Email types: keys, default subjects and settings."""

from __future__ import annotations

import pytest

from authsvc.messaging import EmailType
from mailer.rendering import message_types
from tests.conftest import ChangeConfig

SUBJECTS = {
    "invite": "You have been invited",
    "confirmation": "Confirm Your Signup",
    "recovery": "Reset Your Password",
    "operator_recovery": "Reset the password of your operator account",
    "magic_link": "Your Magic Link",
    "email_change": "Confirm Email Change",
    "reauthentication": "{{ .Token }} is your verification code",
    "password_changed_notification": "Your password has been changed",
    "email_changed_notification": "Your email address has been changed",
    "phone_changed_notification": "Your phone number was changed",
    "email_taken_notification": "Somebody else asked for your email address",
    "identity_linked_notification": "A new sign-in method was linked to your account",
    "identity_unlinked_notification": "A sign-in method was removed from your account",
    "mfa_factor_enrolled_notification": "A new MFA factor has been enrolled",
    "mfa_factor_unenrolled_notification": "An MFA factor has been unenrolled",
    "mfa_recovery_code_used_notification": "A recovery code was used to sign in to your account",
    "impersonation_notification": "A member of our staff opened your account",
}
NOTICES = {type: type.value.removesuffix("_notification") for type in EmailType if type.value.endswith("_notification")}
# Their senders have separate settings.
del NOTICES[EmailType.EMAIL_TAKEN], NOTICES[EmailType.RECOVERY_CODE_USED], NOTICES[EmailType.IMPERSONATION]


def test_every_type_has_a_key_and_a_default_subject() -> None:
    assert {entry.key: entry.subject for entry in message_types.EMAIL_DEFINITIONS.values()} == SUBJECTS
    assert set(message_types.EMAIL_DEFINITIONS) == set(EmailType)


@pytest.mark.parametrize("type", [type for type in EmailType if type not in NOTICES])
def test_action_emails_are_always_enabled(type: EmailType) -> None:
    assert message_types.is_enabled(type)


@pytest.mark.parametrize(("type", "switch"), NOTICES.items())
def test_each_notification_has_its_own_switch(type: EmailType, switch: str, auth_config: ChangeConfig) -> None:
    auth_config(mailer={"notifications": frozenset(NOTICES.values()) - {switch}})
    assert not message_types.is_enabled(type)
    auth_config(mailer={"notifications": frozenset({switch})})
    assert message_types.is_enabled(type)
