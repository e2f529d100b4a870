"""Emails whose link and code verify an address: built, and sent together with their secret and audit entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus, urljoin, urlsplit, urlunsplit
from uuid import uuid4

from django.db import transaction

from accounts.messages import queries, recipients
from accounts.models import User
from accounts.users.records import UserRecord
from authsvc import audit, conf, languages, messaging
from authsvc.audit import Action, PendingEntry
from authsvc.caller import Caller
from authsvc.messaging import Email, EmailType, IntervalGroup, Sender
from authsvc.security import redirects
from tokens.flows import flow_states
from tokens.flows.pkce import Challenge
from tokens.models import TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import OneTimeSecret

_DEFAULT_PATH = "/verify"
_LINKS = {
    EmailType.CONFIRMATION: ("confirmation", "signup"),
    EmailType.INVITE: ("invite", "invite"),
    EmailType.RECOVERY: ("recovery", "recovery"),
    EmailType.MAGIC_LINK: ("recovery", "magiclink"),
    EmailType.EMAIL_CHANGE: ("email_change", "email_change"),
}
"""The purpose for which operators configure the path of the link, and the type in the link.

Magic links share the path of recovery links.
"""


def build(
    type: EmailType, user: UserRecord, *, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime
) -> Email:
    """An email to the user's address with a link and a code for the same secret.

    The link of a recovery of an operator opens `redirect_to`, a page of the console; that email has no code.
    """
    variables: dict[str, Any] = {
        "SiteURL": conf.current().site.url,
        "Email": user.email,
        "TokenHash": secret.link_token,
        "RedirectTo": redirect_to,
        "Data": user.user_metadata,
    }
    if type is EmailType.OPERATOR_RECOVERY:
        variables["ConfirmationURL"] = f"{redirect_to}?token={quote_plus(secret.link_token)}"
    else:
        purpose, link_type = _LINKS[type]
        variables["Token"] = secret.code
        variables["ConfirmationURL"] = action_link(
            base=caller.link_base,
            purpose=purpose,
            token=secret.link_token,
            link_type=link_type,
            redirect_to=redirect_to,
        )
    return Email(
        type=type,
        to=user.email,
        user_id=user.id,
        expires_at=at + conf.current().mailer.otp_exp,
        language=languages.of_user(user.user_metadata),
        variables=variables,
    )


def build_email_change(
    user: UserRecord, *, to: str, secret: OneTimeSecret, redirect_to: str, caller: Caller, at: datetime
) -> Email:
    """One of the emails of a pending address change; each of the two addresses gets its own secret."""
    email = build(EmailType.EMAIL_CHANGE, user, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
    variables = {**email.variables, "NewEmail": user.email_change, "SendingTo": to}
    return dataclasses.replace(email, to=to, variables=variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationEmail:
    """An email that a request asks for, with the records that sending it leaves."""

    type: EmailType
    action: Action
    sent_at: str
    """The user's column for the time of sending; `""` when the caller writes it with the rest of the user."""
    token_type: TokenType
    provider_type: str
    """Of the PKCE flow that the link belongs to."""
    method: str
    """The authentication method of that flow."""


SIGN_UP = ConfirmationEmail(
    type=EmailType.CONFIRMATION,
    action=Action.CONFIRMATION_REQUESTED,
    sent_at="",
    token_type=TokenType.CONFIRMATION,
    provider_type="email",
    method="email/signup",
)
CONFIRMATION = dataclasses.replace(SIGN_UP, sent_at="confirmation_sent_at", provider_type="email/signup")
"""The same email, sent again."""
RECOVERY = ConfirmationEmail(
    type=EmailType.RECOVERY,
    action=Action.RECOVERY_REQUESTED,
    sent_at="recovery_sent_at",
    token_type=TokenType.RECOVERY,
    provider_type="recovery",
    method="recovery",
)
OPERATOR_RECOVERY = dataclasses.replace(RECOVERY, type=EmailType.OPERATOR_RECOVERY)
"""The same for the console; `redirect_to` is its page for a new password."""
MAGIC_LINK = dataclasses.replace(RECOVERY, type=EmailType.MAGIC_LINK, provider_type="magiclink", method="magiclink")


def send(
    email: ConfirmationEmail,
    user: UserRecord,
    *,
    challenge: Challenge | None,
    redirect_to: str,
    traits: Mapping[str, str] | None = None,
    caller: Caller,
    at: datetime,
) -> str:
    """Send an email to the user's address and return the message's id. Must run inside a transaction."""
    secret = one_time_tokens.generate(pkce=challenge is not None)
    token = one_time_tokens.hash_secret(secret, token_type=email.token_type, identifier=user.email, at=at)
    with transaction.atomic(savepoint=False):
        entry = audit.prepare_entry(email.action, actor=user, caller=caller, at=at, traits=traits)
        queries.store_secret_request(user_id=user.id, sent_at=email.sent_at, entry=entry, token=token)
        if challenge is not None:
            flow_states.start_email_flow(
                challenge=challenge,
                provider_type=email.provider_type,
                method=email.method,
                user_id=user.id,
                at=at,
            )
        message = build(email.type, user, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
        messaging.send(message)
    return str(message.id)


def simulate_send(email: ConfirmationEmail, *, address: str, at: datetime) -> None:
    """Run the statements of `send` for an address without an account, so that both take the same time."""
    secret = one_time_tokens.generate(pkce=False)
    token = one_time_tokens.hash_secret(secret, token_type=email.token_type, identifier=address, at=at)
    with transaction.atomic(savepoint=False):
        queries.store_secret_request(
            user_id=uuid4(), sent_at=email.sent_at, entry=PendingEntry(id=uuid4(), payload="{}"), token=token
        )
        messaging.simulate_send()


def reserve_confirmation(address: str, *, sender: Sender) -> None:
    """Check interval, recipient and quota of a `send_confirmation`. Call it before the transaction."""
    with messaging.email_interval(IntervalGroup.CONFIRMATION, address=address):
        recipients.reserve_email(address, type=EmailType.CONFIRMATION, sender=sender)


def send_confirmation(user: UserRecord, *, redirect_to: str, caller: Caller, at: datetime) -> None:
    """Send a link that confirms the user's address, without an audit entry. Must run inside a transaction."""
    secret = one_time_tokens.issue(
        user_id=user.id, token_type=TokenType.CONFIRMATION, identifier=user.email, pkce=False, at=at
    )
    messaging.send(build(EmailType.CONFIRMATION, user, secret=secret, redirect_to=redirect_to, caller=caller, at=at))


def send_new_address(user: UserRecord, *, email: str, redirect_to: str, caller: Caller, at: datetime) -> None:
    """Store `email` as a pending change of an account without a confirmed address, and send the link that completes it.

    The link confirms a change of this account only. Must run inside a transaction.
    """
    with transaction.atomic(savepoint=False):
        User.objects.filter(id=user.id).update(
            email_change=email, email_change_sent_at=at, email_change_confirm_status=0, updated_at=at
        )
        one_time_tokens.delete(user_id=user.id, token_type=TokenType.EMAIL_CHANGE_CURRENT)
        secret = one_time_tokens.issue(
            user_id=user.id, token_type=TokenType.EMAIL_CHANGE_NEW, identifier=email, pkce=False, at=at
        )
        pending = dataclasses.replace(user, email_change=email)
        messaging.send(
            build_email_change(pending, to=email, secret=secret, redirect_to=redirect_to, caller=caller, at=at)
        )


def action_link(*, base: str, purpose: str, token: str, link_type: str, redirect_to: str) -> str:
    """The link of an email: the path configured for `purpose`, resolved against `base` (RFC 3986 §5), with its query.

    `purpose`: `invite`, `confirmation`, `recovery` (also for magic links) or `email_change`. A query in the configured
    path is dropped, a fragment kept. The redirect target is quoted only where `&`, `=` or `#` would cut it. For a
    target that is a hosted page, the link is a hosted page too, so that custom templates work with the pages as well.
    """
    if page := redirects.confirmation_page(redirect_to):
        return redirects.with_query(page, {"token": token, "type": link_type})
    path = conf.current().mailer.url_paths.get(purpose) or _DEFAULT_PATH
    scheme, host, resolved, _, fragment = urlsplit(urljoin(base, path))
    target = quote_plus(redirect_to) if any(mark in redirect_to for mark in "&=#") else redirect_to
    query = f"token={quote_plus(token)}&type={quote_plus(link_type)}&redirect_to={target}"
    return urlunsplit((scheme, host, resolved, query, fragment))
