"""Builds the messages of accounts; the only place that knows which template variables a kind has."""

from __future__ import annotations

from datetime import datetime

import orjson
from django.conf import settings

from accounts import links
from accounts.records import UserRecord
from authsvc.core.caller import Caller
from authsvc.core.messaging import Email, EmailKind
from tokens.services.one_time_tokens import Secret


def confirmation(user: UserRecord, *, secret: Secret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    return _action(EmailKind.CONFIRMATION, "confirmation", "signup", user, secret, redirect_to, caller, at)


def recovery(user: UserRecord, *, secret: Secret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    return _action(EmailKind.RECOVERY, "recovery", "recovery", user, secret, redirect_to, caller, at)


def magic_link(user: UserRecord, *, secret: Secret, redirect_to: str, caller: Caller, at: datetime) -> Email:
    # Magic links share the configured path of recovery links.
    return _action(EmailKind.MAGIC_LINK, "recovery", "magiclink", user, secret, redirect_to, caller, at)


def _action(
    kind: EmailKind,
    purpose: str,
    link_type: str,
    user: UserRecord,
    secret: Secret,
    redirect_to: str,
    caller: Caller,
    at: datetime,
) -> Email:
    """A mail with a link and a code that redeem the same secret."""
    return Email(
        kind=kind,
        to=user.email,
        user_id=user.id,
        expires_at=at + settings.AUTH.mailer.otp_exp,
        variables={
            "SiteURL": settings.AUTH.site.url,
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
