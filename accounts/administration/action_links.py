"""Links and codes for an administrator to deliver: the ones that mails carry, without the mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.administration import errors, invitations
from accounts.messages import confirmation_emails, recipients
from accounts.models import User
from accounts.passwords import hashing, policy
from accounts.users import account_creation, identifiers, json_columns, queries
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailKind
from authsvc.security import encryption
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import OneTimeSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How a link of a type looks: the configured path it has and what it says its type is."""

    path: str
    link_type: str


_FORMS = {
    "signup": _Form(path="confirmation", link_type="signup"),
    "invite": _Form(path="invite", link_type="invite"),
    "magiclink": _Form(path="recovery", link_type="magiclink"),
    "recovery": _Form(path="recovery", link_type="recovery"),
    "email_change_current": _Form(path="email_change", link_type="email_change"),
    "email_change_new": _Form(path="email_change", link_type="email_change"),
}
_EMAIL_CHANGES = {
    "email_change_current": TokenType.EMAIL_CHANGE_CURRENT,
    "email_change_new": TokenType.EMAIL_CHANGE_NEW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an administrator asks for; an empty text is the same as one not given."""

    type: str
    email: str
    new_email: str = ""
    password: str = field(default="", repr=False)
    data: Mapping[str, Any] = field(default_factory=dict)
    redirect_to: str
    """A permitted target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLink:
    """The user as it stands then, and what signs them in: never to be logged."""

    user: UserRecord
    type: str
    """What the link became: `signup` for a magic link whose account did not exist."""
    secret: OneTimeSecret
    url: str = field(repr=False)
    redirect_to: str


def generate(wish: Wish, *, actor: audit.Administrator, caller: Caller, at: datetime) -> ActionLink:
    """Make a link of one of six types, with the account where sign-up or invitation needs one.

    Possible while sign-ups are closed; takes no share of any limit. An invitation is mailed as well, unless the
    operator has switched that off. Raises the errors of an address and of a password, LinkTypeUnknown,
    UserWithEmailNotFound, EmailExists, SecureEmailChangeOff, and for a mailed invitation what refuses a mail.
    """
    address = identifiers.email(wish.email)
    if wish.type not in _FORMS:
        raise errors.LinkTypeUnknown(wish.type)
    try:
        return _generate(address, wish, actor=actor, caller=caller, at=at)
    except IntegrityError:
        # Somebody has made the account meanwhile; then it is found now.
        if not User.objects.with_email(address).exists():
            raise
    return _generate(address, wish, actor=actor, caller=caller, at=at)


def _generate(address: str, wish: Wish, *, actor: audit.Administrator, caller: Caller, at: datetime) -> ActionLink:
    user = queries.find_by("email", address, aud=caller.audience)
    if wish.type == "invite":
        return _invitation(address, wish, actor=actor, caller=caller, at=at)
    if wish.type == "signup" or (wish.type == "magiclink" and user is None):
        return _sign_up(address, wish, caller=caller, at=at)
    if user is None:
        raise errors.UserWithEmailNotFound
    if wish.type in _EMAIL_CHANGES:
        return _email_change(user, wish, caller=caller, at=at)
    with transaction.atomic(durable=True):
        audit.record(audit.Action.RECOVERY_REQUESTED, actor=user, caller=caller, at=at)
        User.objects.filter(id=user.id).update(recovery_sent_at=at, updated_at=at)
        secret = _issue(user, TokenType.RECOVERY, identifier=address, at=at)
        return _link(wish.type, _read(user), secret, wish, caller=caller)


def _invitation(address: str, wish: Wish, *, actor: audit.Administrator, caller: Caller, at: datetime) -> ActionLink:
    found = invitations.candidate(address, audience=caller.audience)
    is_mailed = conf.current().mailer.generate_link_invite_enabled
    if is_mailed:
        recipients.reserve_email(address, kind=EmailKind.INVITE)
    with transaction.atomic(durable=True):
        user, secret = invitations.prepare(address, found, data=wish.data, actor=actor, caller=caller, at=at)
        if is_mailed:
            messaging.send(
                confirmation_emails.invitation(user, secret=secret, redirect_to=wish.redirect_to, caller=caller, at=at)
            )
        return _link("invite", user, secret, wish, caller=caller)


def _sign_up(address: str, wish: Wish, *, caller: Caller, at: datetime) -> ActionLink:
    found = invitations.candidate(address, audience=caller.audience)
    password_hash = _password_hash(wish, is_new=found is None)
    with transaction.atomic(durable=True):
        if found is None:
            user = account_creation.create_user_as_administrator(
                email=address,
                password_hash=password_hash,
                metadata=wish.data,
                audience=caller.audience,
                at=at,
                confirmation_sent_at=at,
            )
        else:
            user = invitations.reopen(
                found,
                at=at,
                password=encryption.encrypt(password_hash, bound_to=found.id) if password_hash else "",
                confirmation_sent_at=at,
                raw_user_meta_data=json_columns.merged("raw_user_meta_data", wish.data),
            )
        secret = _issue(user, TokenType.CONFIRMATION, identifier=address, at=at)
        return _link("signup", user, secret, wish, caller=caller)


def _password_hash(wish: Wish, *, is_new: bool) -> str:
    """The hash for an account to be confirmed; `""` for one that exists and is not given a password here."""
    if wish.type == "magiclink":
        return hashing.unusable_hash()
    if not wish.password:
        if is_new:
            raise account_errors.PasswordRequired
        return ""
    policy.validate_password(wish.password)
    return hashing.hash_password(wish.password)


def _email_change(user: UserRecord, wish: Wish, *, caller: Caller, at: datetime) -> ActionLink:
    token_type = _EMAIL_CHANGES[wish.type]
    is_current = token_type is TokenType.EMAIL_CHANGE_CURRENT
    if is_current and not conf.current().mailer.secure_email_change_enabled:
        raise errors.SecureEmailChangeOff
    to = identifiers.email(wish.new_email)
    if queries.is_email_taken(to, except_user=user.id):
        raise account_errors.EmailExists
    with transaction.atomic(durable=True):
        User.objects.filter(id=user.id).update(
            email_change=to, email_change_sent_at=at, email_change_confirm_status=0, updated_at=at
        )
        if user.email_change != to:
            # A link given out for another new address must not confirm this one.
            for each in _EMAIL_CHANGES.values():
                one_time_tokens.delete(user_id=user.id, token_type=each)
        secret = _issue(user, token_type, identifier=user.email if is_current else to, at=at)
        return _link(wish.type, _read(user), secret, wish, caller=caller)


def _issue(user: UserRecord, token_type: TokenType, *, identifier: str, at: datetime) -> OneTimeSecret:
    return one_time_tokens.issue(user_id=user.id, token_type=token_type, identifier=identifier, pkce=False, at=at)


def _link(type: str, user: UserRecord, secret: OneTimeSecret, wish: Wish, *, caller: Caller) -> ActionLink:
    form = _FORMS[type]
    url = confirmation_emails.action_link(
        base=caller.link_base,
        purpose=form.path,
        token=secret.link_token,
        link_type=form.link_type,
        redirect_to=wish.redirect_to,
    )
    return ActionLink(user=user, type=type, secret=secret, url=url, redirect_to=wish.redirect_to)


def _read(user: UserRecord) -> UserRecord:
    return queries.get(user.id) or user
