"""Links and codes of emails, for an administrator to deliver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.administration import errors, invitations
from accounts.messages import confirmation_emails, recipients
from accounts.models import User
from accounts.passwords import hashing, policy
from accounts.users import account_creation, creation_hook, identifiers, metadata_limits, queries, updates
from accounts.users.records import UserRecord
from authsvc import audit, conf, languages, messaging
from authsvc.caller import Caller
from authsvc.messaging import EmailType
from authsvc.security import encryption
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import OneTimeSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkFormat:
    """The configured path of a link, and the value of its `type` parameter."""

    path: str
    link_type: str


_LINK_FORMATS = {
    "signup": _LinkFormat(path="confirmation", link_type="signup"),
    "invite": _LinkFormat(path="invite", link_type="invite"),
    "magiclink": _LinkFormat(path="recovery", link_type="magiclink"),
    "recovery": _LinkFormat(path="recovery", link_type="recovery"),
    "email_change_current": _LinkFormat(path="email_change", link_type="email_change"),
    "email_change_new": _LinkFormat(path="email_change", link_type="email_change"),
}
_EMAIL_CHANGES = {
    "email_change_current": TokenType.EMAIL_CHANGE_CURRENT,
    "email_change_new": TokenType.EMAIL_CHANGE_NEW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """The link that an administrator requests; an empty string counts as absent."""

    type: str
    email: str
    new_email: str = ""
    password: str = field(default="", repr=False)
    data: Mapping[str, Any] = field(default_factory=dict)
    redirect_to: str
    """A permitted target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedLink:
    """The user after the change, with the secrets that sign them in. Must not be logged."""

    user: UserRecord
    type: str
    """The type of the link: `signup` for a magic link whose account did not exist."""
    secret: OneTimeSecret
    url: str = field(repr=False)
    redirect_to: str


def generate(request: LinkRequest, *, actor: audit.Administrator, caller: Caller, at: datetime) -> GeneratedLink:
    """Create a link of one of six types, and the account where sign-up or invitation needs one.

    Works while sign-ups are disabled. An invitation is also sent by email, unless the operator has disabled that; it
    counts against the quota of administrators. Raises the errors of an address and of a password, LinkTypeUnknown,
    UserWithEmailNotFound, EmailExists, SecureEmailChangeOff, and for an invitation the errors of sending an email.
    """
    address = identifiers.email(request.email)
    if request.type not in _LINK_FORMATS:
        raise errors.LinkTypeUnknown(request.type)
    try:
        return _generate(address, request, actor=actor, caller=caller, at=at)
    except IntegrityError:
        # Another request has created the account meanwhile, so the second attempt finds it.
        if not User.objects.with_email(address).exists():
            raise
    return _generate(address, request, actor=actor, caller=caller, at=at)


def _generate(
    address: str, request: LinkRequest, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> GeneratedLink:
    """Create the link of the requested type. Opens the transaction."""
    user = queries.find_claimant("email", address, aud=caller.audience)
    if request.type == "invite":
        return _invitation(address, request, actor=actor, caller=caller, at=at)
    if request.type == "signup" or (request.type == "magiclink" and user is None):
        return _sign_up(address, request, actor=actor, caller=caller, at=at)
    if user is None:
        raise errors.UserWithEmailNotFound
    if request.type in _EMAIL_CHANGES:
        return _email_change(user, request, actor=actor, caller=caller, at=at)
    with transaction.atomic(durable=True):
        traits = _traits(user, request)
        audit.record(audit.Action.RECOVERY_REQUESTED, actor=actor, caller=caller, at=at, traits=traits)
        if not User.objects.filter(id=user.id).update(recovery_sent_at=at, updated_at=at):
            raise errors.UserWithEmailNotFound  # deleted meanwhile
        secret = _issue(user, TokenType.RECOVERY, identifier=address, at=at)
        return _link(request.type, queries.reread(user), secret, request, caller=caller)


def _invitation(
    address: str, request: LinkRequest, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> GeneratedLink:
    """Create or reset the invited account, with its link; also send the link, if that is enabled."""
    existing = invitations.find_unconfirmed(address, audience=caller.audience)
    is_mailed = conf.current().mailer.generate_link_invite_enabled
    if is_mailed:
        recipients.reserve_email(address, type=EmailType.INVITE, sender=messaging.ADMINISTRATION)
    new_user_id = invitations.check_new_user(address, existing, data=request.data, caller=caller)
    with messaging.reserved("email" if is_mailed else None), transaction.atomic(durable=True):
        user, secret = invitations.prepare(
            address, existing, data=request.data, new_user_id=new_user_id, actor=actor, caller=caller, at=at
        )
        if is_mailed:
            email = confirmation_emails.build(
                EmailType.INVITE, user, secret=secret, redirect_to=request.redirect_to, caller=caller, at=at
            )
            messaging.send(replace(email, language=email.language or languages.default()))
        link = _link("invite", user, secret, request, caller=caller)
    if new_user_id is not None:
        creation_hook.announce(user, caller=caller)
    return link


def _sign_up(
    address: str, request: LinkRequest, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> GeneratedLink:
    """Create the account, or reset an unconfirmed one, with the link that confirms it."""
    existing = invitations.find_unconfirmed(address, audience=caller.audience)
    password_hash = _password_hash(request, is_new=existing is None or existing.has_unproven_claim("email"))
    new_user_id = invitations.check_new_user(address, existing, data=request.data, caller=caller)
    with transaction.atomic(durable=True):
        existing = invitations.release_claim(existing, at=at)
        if existing is None:
            user = account_creation.create_user_as_administrator(
                email=address,
                password_hash=password_hash,
                metadata=request.data,
                audience=caller.audience,
                at=at,
                id=new_user_id,
                confirmation_sent_at=at,
            )
        else:
            user = invitations.reset_unconfirmed(
                existing,
                at=at,
                password=encryption.encrypt(password_hash, bound_to=existing.id) if password_hash else "",
                aud=caller.audience,
                confirmation_sent_at=at,
                raw_user_meta_data=updates.merged_json("raw_user_meta_data", request.data),
            )
            metadata_limits.check_change(user, before=existing)
        traits = _traits(user, request)
        audit.record(audit.Action.CONFIRMATION_REQUESTED, actor=actor, caller=caller, at=at, traits=traits)
        secret = _issue(user, TokenType.CONFIRMATION, identifier=address, at=at)
        link = _link("signup", user, secret, request, caller=caller)
    if new_user_id is not None:
        creation_hook.announce(user, caller=caller)
    return link


def _password_hash(request: LinkRequest, *, is_new: bool) -> str:
    """The password hash of the account; `""` for an existing account without a new password."""
    if request.type == "magiclink":
        return hashing.unusable_hash()
    if not request.password:
        if is_new:
            raise account_errors.PasswordRequired
        return ""
    policy.validate_password(request.password)
    return hashing.hash_password(request.password)


def _email_change(
    user: UserRecord, request: LinkRequest, *, actor: audit.Administrator, caller: Caller, at: datetime
) -> GeneratedLink:
    """Store the new address as pending, with the link of one of both addresses."""
    token_type = _EMAIL_CHANGES[request.type]
    is_current = token_type is TokenType.EMAIL_CHANGE_CURRENT
    if is_current and not conf.current().mailer.secure_email_change_enabled:
        raise errors.SecureEmailChangeOff
    to = identifiers.email(request.new_email)
    if queries.is_email_taken(to, except_user=user.id):
        raise account_errors.EmailExists
    with transaction.atomic(durable=True):
        pending = {"email_change": to, "email_change_sent_at": at, "email_change_confirm_status": 0}
        if not User.objects.filter(id=user.id).update(**pending, updated_at=at):
            raise errors.UserWithEmailNotFound  # deleted meanwhile
        if user.email_change != to:
            # A link for an earlier new address must not confirm this one.
            for earlier in _EMAIL_CHANGES.values():
                one_time_tokens.delete(user_id=user.id, token_type=earlier)
        changes = audit.describe_changes({"email_change": user.email_change}, {"email_change": to})
        traits = {**_traits(user, request), "changes": changes}
        audit.record(audit.Action.MODIFIED, actor=actor, caller=caller, at=at, traits=traits)
        secret = _issue(user, token_type, identifier=user.email if is_current else to, at=at)
        return _link(request.type, queries.reread(user), secret, request, caller=caller)


def _traits(user: UserRecord, request: LinkRequest) -> dict[str, Any]:
    return {"user_id": str(user.id), "user_email": user.email, "link_type": request.type}


def _issue(user: UserRecord, token_type: TokenType, *, identifier: str, at: datetime) -> OneTimeSecret:
    return one_time_tokens.issue(user_id=user.id, token_type=token_type, identifier=identifier, pkce=False, at=at)


def _link(type: str, user: UserRecord, secret: OneTimeSecret, request: LinkRequest, *, caller: Caller) -> GeneratedLink:
    form = _LINK_FORMATS[type]
    url = confirmation_emails.action_link(
        base=caller.link_base,
        purpose=form.path,
        token=secret.link_token,
        link_type=form.link_type,
        redirect_to=request.redirect_to,
    )
    return GeneratedLink(user=user, type=type, secret=secret, url=url, redirect_to=request.redirect_to)
