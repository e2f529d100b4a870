"""Email types: settings key, default subject and template variables of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext_noop

from authsvc import conf
from authsvc.messaging import EmailType

_COMMON = frozenset({"SiteURL", "Email", "Data"})
_LINK = _COMMON | {"ConfirmationURL", "Token", "TokenHash", "RedirectTo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailDefinition:
    key: str
    """Key in the settings `mailer.subjects` and `mailer.templates`, and name of the files in `templates/mailer/`."""
    subject: str
    """Template of the default subject."""
    variables: frozenset[str] = _COMMON
    """Variables of subject and body; other names render as an empty string."""
    setting: str = ""
    """Name in the setting `mailer.notifications` that enables the type; empty: always enabled."""


EMAIL_DEFINITIONS: Mapping[EmailType, EmailDefinition] = {
    EmailType.CONFIRMATION: EmailDefinition(
        key="confirmation", subject=gettext_noop("Confirm Your Signup"), variables=_LINK
    ),
    EmailType.INVITE: EmailDefinition(key="invite", subject=gettext_noop("You have been invited"), variables=_LINK),
    EmailType.RECOVERY: EmailDefinition(key="recovery", subject=gettext_noop("Reset Your Password"), variables=_LINK),
    EmailType.OPERATOR_RECOVERY: EmailDefinition(
        key="operator_recovery",
        subject=gettext_noop("Reset the password of your operator account"),
        variables=_LINK - {"Token"},
    ),
    EmailType.MAGIC_LINK: EmailDefinition(key="magic_link", subject=gettext_noop("Your Magic Link"), variables=_LINK),
    EmailType.EMAIL_CHANGE: EmailDefinition(
        key="email_change", subject=gettext_noop("Confirm Email Change"), variables=_LINK | {"NewEmail", "SendingTo"}
    ),
    EmailType.REAUTHENTICATION: EmailDefinition(
        key="reauthentication",
        subject=gettext_noop("{{ .Token }} is your verification code"),
        variables=_COMMON | {"Token"},
    ),
    EmailType.PASSWORD_CHANGED: EmailDefinition(
        key="password_changed_notification",
        subject=gettext_noop("Your password has been changed"),
        setting="password_changed",
    ),
    EmailType.EMAIL_CHANGED: EmailDefinition(
        key="email_changed_notification",
        subject=gettext_noop("Your email address has been changed"),
        variables=_COMMON | {"OldEmail"},
        setting="email_changed",
    ),
    EmailType.PHONE_CHANGED: EmailDefinition(
        key="phone_changed_notification",
        subject=gettext_noop("Your phone number was changed"),
        variables=_COMMON | {"Phone", "OldPhone"},
        setting="phone_changed",
    ),
    EmailType.EMAIL_TAKEN: EmailDefinition(
        key="email_taken_notification", subject=gettext_noop("Somebody else asked for your email address")
    ),
    EmailType.IDENTITY_LINKED: EmailDefinition(
        key="identity_linked_notification",
        subject=gettext_noop("A new sign-in method was linked to your account"),
        variables=_COMMON | {"Provider"},
        setting="identity_linked",
    ),
    EmailType.IDENTITY_UNLINKED: EmailDefinition(
        key="identity_unlinked_notification",
        subject=gettext_noop("A sign-in method was removed from your account"),
        variables=_COMMON | {"Provider"},
        setting="identity_unlinked",
    ),
    EmailType.FACTOR_ENROLLED: EmailDefinition(
        key="mfa_factor_enrolled_notification",
        subject=gettext_noop("A new MFA factor has been enrolled"),
        variables=_COMMON | {"FactorType"},
        setting="mfa_factor_enrolled",
    ),
    EmailType.FACTOR_UNENROLLED: EmailDefinition(
        key="mfa_factor_unenrolled_notification",
        subject=gettext_noop("An MFA factor has been unenrolled"),
        variables=_COMMON | {"FactorType"},
        setting="mfa_factor_unenrolled",
    ),
    EmailType.RECOVERY_CODE_USED: EmailDefinition(
        key="mfa_recovery_code_used_notification",
        subject=gettext_noop("A recovery code was used to sign in to your account"),
        variables=_COMMON | {"Remaining"},
    ),
    EmailType.IMPERSONATION: EmailDefinition(
        key="impersonation_notification", subject=gettext_noop("A member of our staff opened your account")
    ),
}

SMS_TEXT = gettext_noop("Your code is {{ .Code }}")
"""The default of AUTH_SMS_TEMPLATE and AUTH_MFA_PHONE_TEMPLATE, marked for translation here.

Settings are loaded before Django can translate.
"""
SMS_VARIABLES = frozenset({"Code"})
"""Variables of an SMS text."""


def is_enabled(type: EmailType) -> bool:
    """True unless the type is a notification that the settings do not enable."""
    setting = EMAIL_DEFINITIONS[type].setting
    return not setting or setting in conf.current().mailer.notifications
