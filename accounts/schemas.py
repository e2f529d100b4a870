"""Response schemas that several endpoints share. `users.records` builds the responses."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict
from uuid import UUID

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
FactorTypeName: TypeAlias = Literal["totp", "phone", "webauthn"]


class Identity(TypedDict):
    """An email, a phone, or an account at a provider."""

    identity_id: UUID
    id: str
    """The subject at the provider."""
    user_id: UUID
    identity_data: dict[str, Any]
    """The provider's claims, or the data of the sign-up."""
    provider: str
    """`email`, `phone`, or the name of a provider."""
    last_sign_in_at: NotRequired[Moment]
    created_at: Moment | None
    """Null when unknown, as for some imported identities."""
    updated_at: Moment | None
    email: NotRequired[str]


class Factor(TypedDict):
    """A second factor."""

    id: UUID
    created_at: Moment
    updated_at: Moment
    status: Literal["unverified", "verified"]
    factor_type: FactorTypeName
    phone: str
    """Digits; empty unless the factor is a phone."""
    last_challenged_at: Moment | None
    friendly_name: NotRequired[str]
    web_authn_aaguid: NotRequired[UUID]
    """The model of the authenticator."""


class User(TypedDict):
    """A user. Times are absent until the event has happened."""

    id: UUID
    aud: str
    role: str
    email: str
    """Empty without an email."""
    phone: str
    """Digits without `+`; empty without a phone."""
    email_confirmed_at: NotRequired[Moment]
    invited_at: NotRequired[Moment]
    phone_confirmed_at: NotRequired[Moment]
    confirmation_sent_at: NotRequired[Moment]
    confirmed_at: NotRequired[Moment]
    """The time when the first of email and phone was confirmed."""
    recovery_sent_at: NotRequired[Moment]
    email_change_sent_at: NotRequired[Moment]
    phone_change_sent_at: NotRequired[Moment]
    reauthentication_sent_at: NotRequired[Moment]
    last_sign_in_at: NotRequired[Moment]
    banned_until: NotRequired[Moment]
    deleted_at: NotRequired[Moment]
    new_email: NotRequired[str]
    """A pending email address."""
    new_phone: NotRequired[str]
    """A pending phone."""
    app_metadata: dict[str, Any]
    """Written by the service and its administrators."""
    user_metadata: dict[str, Any]
    """Written by the user."""
    factors: NotRequired[list[Factor]]
    identities: list[Identity]
    created_at: Moment | None
    """Null when unknown, as for some imported users."""
    updated_at: Moment | None
    is_anonymous: bool
    """The user has no identity to sign in with again."""


class MessageSent(TypedDict):
    """A message was sent, or would have been sent to an existing account."""

    message_id: NotRequired[str]
    """Only for SMS."""
