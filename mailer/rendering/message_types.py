"""Message kinds as data: which settings, default texts and variables belong to each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from authsvc import conf
from authsvc.messaging import EmailKind

_COMMON = frozenset({"SiteURL", "Email", "Data"})
_LINK = _COMMON | {"ConfirmationURL", "Token", "TokenHash", "RedirectTo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailEntry:
    key: str
    """Name in `settings.AUTH.mailer.subjects` and `.templates`, and of the built-in bodies in `templates/mailer/`."""
    subject: str
    """Default subject, a template itself."""
    variables: frozenset[str] = _COMMON
    """What subject and body may use; anything else renders as nothing."""
    switch: str = ""
    """Name in `settings.AUTH.mailer.notifications` that turns the kind on; empty: always on."""


EMAILS: Mapping[EmailKind, EmailEntry] = {
    EmailKind.CONFIRMATION: EmailEntry(key="confirmation", subject="Confirm Your Signup", variables=_LINK),
    EmailKind.INVITE: EmailEntry(key="invite", subject="You have been invited", variables=_LINK),
    EmailKind.RECOVERY: EmailEntry(key="recovery", subject="Reset Your Password", variables=_LINK),
    EmailKind.MAGIC_LINK: EmailEntry(key="magic_link", subject="Your Magic Link", variables=_LINK),
    EmailKind.EMAIL_CHANGE: EmailEntry(
        key="email_change", subject="Confirm Email Change", variables=_LINK | {"NewEmail", "SendingTo"}
    ),
    EmailKind.REAUTHENTICATION: EmailEntry(
        key="reauthentication", subject="{{ .Token }} is your verification code", variables=_COMMON | {"Token"}
    ),
    EmailKind.PASSWORD_CHANGED: EmailEntry(
        key="password_changed_notification",
        subject="Your password has been changed",
        switch="password_changed",
    ),
    EmailKind.EMAIL_CHANGED: EmailEntry(
        key="email_changed_notification",
        subject="Your email address has been changed",
        variables=_COMMON | {"OldEmail"},
        switch="email_changed",
    ),
    EmailKind.PHONE_CHANGED: EmailEntry(
        key="phone_changed_notification",
        subject="Your phone number was changed",
        variables=_COMMON | {"Phone", "OldPhone"},
        switch="phone_changed",
    ),
    EmailKind.EMAIL_TAKEN: EmailEntry(
        key="email_taken_notification", subject="Somebody else asked for your email address"
    ),
    EmailKind.IDENTITY_LINKED: EmailEntry(
        key="identity_linked_notification",
        subject="A new sign-in method was linked to your account",
        variables=_COMMON | {"Provider"},
        switch="identity_linked",
    ),
    EmailKind.IDENTITY_UNLINKED: EmailEntry(
        key="identity_unlinked_notification",
        subject="A sign-in method was removed from your account",
        variables=_COMMON | {"Provider"},
        switch="identity_unlinked",
    ),
    EmailKind.FACTOR_ENROLLED: EmailEntry(
        key="mfa_factor_enrolled_notification",
        subject="A new MFA factor has been enrolled",
        variables=_COMMON | {"FactorType"},
        switch="mfa_factor_enrolled",
    ),
    EmailKind.FACTOR_UNENROLLED: EmailEntry(
        key="mfa_factor_unenrolled_notification",
        subject="An MFA factor has been unenrolled",
        variables=_COMMON | {"FactorType"},
        switch="mfa_factor_unenrolled",
    ),
    EmailKind.RECOVERY_CODE_USED: EmailEntry(
        key="mfa_recovery_code_used_notification",
        subject="A recovery code was used to sign in to your account",
        variables=_COMMON | {"Remaining"},
    ),
}

SMS_VARIABLES = frozenset({"Code"})
"""What the text of an SMS may use."""


def is_enabled(kind: EmailKind) -> bool:
    """Whether mails of this kind are sent at all: notices need their switch, the others have none."""
    switch = EMAILS[kind].switch
    return not switch or switch in conf.current().mailer.notifications
