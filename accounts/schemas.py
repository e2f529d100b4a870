"""The form of what this app answers, declared once for the description of the API; `payloads` makes it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Identity(TypedDict):
    """One way in: an address, a number, or an account at a provider."""

    identity_id: UUID
    id: str
    """The subject at the provider."""
    user_id: UUID
    identity_data: dict[str, Any]
    """What the provider said, or what was given at sign-up."""
    provider: str
    """`email`, `phone`, or the name of a provider."""
    last_sign_in_at: NotRequired[Moment]
    created_at: Moment | None
    """Null where it is not known, as of some identities that were imported."""
    updated_at: Moment | None
    email: NotRequired[str]


class Factor(TypedDict):
    """A second factor."""

    id: UUID
    created_at: Moment
    updated_at: Moment
    status: Literal["unverified", "verified"]
    factor_type: Literal["totp", "phone", "webauthn"]
    phone: str
    """Digits; empty unless it is a phone."""
    last_challenged_at: Moment | None
    friendly_name: NotRequired[str]
    web_authn_aaguid: NotRequired[UUID]
    """The model of the authenticator."""


class User(TypedDict):
    """A user as the API shows them. Times are absent until the event has happened."""

    id: UUID
    aud: str
    role: str
    email: str
    """Empty when there is none."""
    phone: str
    """Digits without `+`; empty when there is none."""
    email_confirmed_at: NotRequired[Moment]
    invited_at: NotRequired[Moment]
    phone_confirmed_at: NotRequired[Moment]
    confirmation_sent_at: NotRequired[Moment]
    confirmed_at: NotRequired[Moment]
    """When the first address or number was confirmed."""
    recovery_sent_at: NotRequired[Moment]
    email_change_sent_at: NotRequired[Moment]
    phone_change_sent_at: NotRequired[Moment]
    reauthentication_sent_at: NotRequired[Moment]
    last_sign_in_at: NotRequired[Moment]
    banned_until: NotRequired[Moment]
    deleted_at: NotRequired[Moment]
    new_email: NotRequired[str]
    """An address that waits for its confirmation."""
    new_phone: NotRequired[str]
    """A number that waits for its confirmation."""
    app_metadata: dict[str, Any]
    """Kept by the service and its administrators."""
    user_metadata: dict[str, Any]
    """Kept by the user."""
    factors: NotRequired[list[Factor]]
    identities: list[Identity]
    created_at: Moment | None
    """Null where it is not known, as of some users who were imported."""
    updated_at: Moment | None
    is_anonymous: bool
    """Whether there is no way to sign in again."""


class MessageSent(TypedDict):
    """Something was sent, or would have been if there were somebody to send it to."""

    message_id: NotRequired[str]
    """Of a text message."""
