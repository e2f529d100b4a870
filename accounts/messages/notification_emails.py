"""Builds the emails without a link: notifications of account changes, and the code for reauthentication."""

from __future__ import annotations

from datetime import datetime

from accounts.users.records import UserRecord
from authsvc import conf, languages
from authsvc.messaging import Email, EmailType


def reauthentication(user: UserRecord, *, code: str, at: datetime) -> Email:
    """The email with the code of a reauthentication."""
    expires_at = at + conf.current().mailer.otp_exp
    return _email(EmailType.REAUTHENTICATION, user, expires_at=expires_at, Token=code)


def password_changed(user: UserRecord) -> Email:
    return _email(EmailType.PASSWORD_CHANGED, user)


def email_changed(user: UserRecord, *, email: str) -> Email:
    """An email to the previous address."""
    return _email(EmailType.EMAIL_CHANGED, user, Email=email, OldEmail=user.email)


def email_taken(owner: UserRecord) -> Email:
    """An email to the owner of an address that another account requests."""
    return _email(EmailType.EMAIL_TAKEN, owner, language=languages.default())


def phone_changed(user: UserRecord, *, phone: str) -> Email:
    return _email(EmailType.PHONE_CHANGED, user, Phone=phone, OldPhone=user.phone)


def identity_linked(user: UserRecord, *, provider: str) -> Email:
    return _email(EmailType.IDENTITY_LINKED, user, Provider=provider)


def identity_unlinked(user: UserRecord, *, provider: str) -> Email:
    """An email to the address that the user had before the identity was unlinked."""
    return _email(EmailType.IDENTITY_UNLINKED, user, Provider=provider)


def factor_enrolled(user: UserRecord, *, factor_type: str) -> Email:
    return _email(EmailType.FACTOR_ENROLLED, user, FactorType=factor_type)


def factor_unenrolled(user: UserRecord, *, factor_type: str) -> Email:
    return _email(EmailType.FACTOR_UNENROLLED, user, FactorType=factor_type)


def recovery_code_used(user: UserRecord, *, remaining: int) -> Email:
    return _email(EmailType.RECOVERY_CODE_USED, user, Remaining=str(remaining))


def impersonated(user: UserRecord) -> Email:
    """An email to a user whom an operator begins to impersonate."""
    return _email(EmailType.IMPERSONATION, user, language=languages.default())


def _email(
    type: EmailType, user: UserRecord, *, expires_at: datetime | None = None, language: str = "", **variables: str
) -> Email:
    """An email to the user.

    `language` is used for a user without a language; empty: that of the request, if the user sends it.
    """
    common = {
        "SiteURL": conf.current().site.url,
        "Email": user.email,
        "Data": user.user_metadata,
    }
    return Email(
        type=type,
        to=user.email,
        user_id=user.id,
        expires_at=expires_at,
        language=languages.of_user(user.user_metadata) or language,
        variables={**common, **variables},
    )
