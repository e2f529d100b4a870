"""Builds the messages of accounts; the only place that knows which template variables a kind has."""

from __future__ import annotations

import dataclasses
from datetime import datetime

import orjson

from accounts.messages import links
from accounts.users.records import UserRecord
from authsvc import conf
from authsvc.caller import Caller
from authsvc.messaging import Email, EmailKind
from tokens.one_time.one_time_tokens import OneTimeSecret


def confirmation(user: UserRecord, *, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    return _action(EmailKind.CONFIRMATION, "confirmation", "signup", user, secret, redirect_to, caller, at)


def invitation(user: UserRecord, *, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    return _action(EmailKind.INVITE, "invite", "invite", user, secret, redirect_to, caller, at)


def recovery(user: UserRecord, *, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    return _action(EmailKind.RECOVERY, "recovery", "recovery", user, secret, redirect_to, caller, at)


def magic_link(user: UserRecord, *, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    # Magic links share the configured path of recovery links.
    return _action(EmailKind.MAGIC_LINK, "recovery", "magiclink", user, secret, redirect_to, caller, at)


def email_change(
    user: UserRecord, *, to: str, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime
) -> Email:
    """One of the mails of a pending change; each address gets a secret of its own."""
    mail = _action(EmailKind.EMAIL_CHANGE, "email_change", "email_change", user, secret, redirect_to, caller, at)
    variables = {**mail.variables, "NewEmail": user.email_change, "SendingTo": to}
    return dataclasses.replace(mail, to=to, variables=variables)


def reauthentication(user: UserRecord, *, code: str, at: datetime) -> Email:
    expires_at = at + conf.current().mailer.otp_exp
    return _notice(EmailKind.REAUTHENTICATION, user, expires_at=expires_at, Token=code)


def password_changed(user: UserRecord) -> Email:
    return _notice(EmailKind.PASSWORD_CHANGED, user)


def email_changed(user: UserRecord, *, email: str) -> Email:
    """To the address that was."""
    return _notice(EmailKind.EMAIL_CHANGED, user, Email=email, OldEmail=user.email)


def email_taken(owner: UserRecord) -> Email:
    """To the owner of an address that another account wants to have."""
    return _notice(EmailKind.EMAIL_TAKEN, owner)


def phone_changed(user: UserRecord, *, phone: str) -> Email:
    return _notice(EmailKind.PHONE_CHANGED, user, Phone=phone, OldPhone=user.phone)


def identity_linked(user: UserRecord, *, provider: str) -> Email:
    return _notice(EmailKind.IDENTITY_LINKED, user, Provider=provider)


def identity_unlinked(user: UserRecord, *, provider: str) -> Email:
    """To the address the user had while the identity was theirs."""
    return _notice(EmailKind.IDENTITY_UNLINKED, user, Provider=provider)


def factor_enrolled(user: UserRecord, *, factor_type: str) -> Email:
    return _notice(EmailKind.FACTOR_ENROLLED, user, FactorType=factor_type)


def factor_unenrolled(user: UserRecord, *, factor_type: str) -> Email:
    return _notice(EmailKind.FACTOR_UNENROLLED, user, FactorType=factor_type)


def recovery_code_used(user: UserRecord, *, remaining: int) -> Email:
    return _notice(EmailKind.RECOVERY_CODE_USED, user, Remaining=str(remaining))


def _notice(kind: EmailKind, user: UserRecord, *, expires_at: datetime | None = None, **variables: str) -> Email:
    """A mail without a link, to the user's present address."""
    known = {
        "SiteURL": conf.current().site.url,
        "Email": user.email,
        "Data": orjson.loads(user.user_metadata_json),
    }
    return Email(kind=kind, to=user.email, user_id=user.id, expires_at=expires_at, variables={**known, **variables})


def _action(
    kind: EmailKind,
    purpose: str,
    link_type: str,
    user: UserRecord,
    secret: OneTimeSecret,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Email:
    """A mail with a link and a code that redeem the same secret."""
    return Email(
        kind=kind,
        to=user.email,
        user_id=user.id,
        expires_at=at + conf.current().mailer.otp_exp,
        variables={
            "SiteURL": conf.current().site.url,
            "Email": user.email,
            "ConfirmationURL": links.action_link(
                base=caller.link_base,
                purpose=purpose,
                token=secret.link_token,
                link_type=link_type,
                redirect_to=redirect_to,
            ),
            "Token": secret.code,
            "TokenHash": secret.link_token,
            "RedirectTo": redirect_to,
            "Data": orjson.loads(user.user_metadata_json),
        },
    )
