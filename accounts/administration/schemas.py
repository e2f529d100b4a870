"""Request and response bodies of administration, as the description of the API shows them."""

from __future__ import annotations

from typing import Any, ClassVar, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import Moment, User
from authsvc.api.parsing import Body


class InviteInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("email",)
    email: str | None = None
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""


class GenerateLinkInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type", "email")
    type: str | None = None
    """`signup`, `invite`, `magiclink`, `recovery`, `email_change_current` or `email_change_new`."""
    email: str | None = None
    new_email: str | None = None
    """The new address of an email change."""
    password: str | None = None
    """The password of a new account; replaces that of an existing one."""
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""
    redirect_to: str | None = None


class NewUserInput(Body, frozen=True):
    id: str | None = None
    aud: str | None = None
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    """The password policy does not apply."""
    password_hash: str | None = None
    """bcrypt, Argon2i, Argon2id or Firebase scrypt, in place of a password."""
    email_confirm: bool | None = None
    """Mark the email address as confirmed."""
    phone_confirm: bool | None = None
    """Mark the phone as confirmed."""
    user_metadata: dict[str, Any] | None = None
    app_metadata: dict[str, Any] | None = None
    ban_duration: str | None = None
    """`24h`, `2h45m`; `none` ends a ban."""


class ChangeUserInput(Body, frozen=True):
    example: ClassVar[tuple[str, ...]] = ("email", "ban_duration")
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    email_confirm: bool | None = None
    """Mark the email address as confirmed."""
    phone_confirm: bool | None = None
    """Mark the phone as confirmed."""
    user_metadata: dict[str, Any] | None = None
    """Merged; null deletes a key."""
    app_metadata: dict[str, Any] | None = None
    """Merged; null deletes a key."""
    ban_duration: str | None = None
    """`24h`, `2h45m`; `none` ends a ban."""


class DeleteUserInput(Body, frozen=True):
    should_soft_delete: bool | None = None
    """Keep the row without personal data."""


class ChangeFactorInput(Body, frozen=True):
    example: ClassVar[tuple[str, ...]] = ("friendly_name",)
    friendly_name: str | None = None
    phone: str | None = None
    """The phone of a phone factor."""


class ActionLink(User):
    """The user with a link and a code that sign them in. Must not be logged."""

    action_link: str
    email_otp: str
    """The code of the same email."""
    hashed_token: str
    """The token of the link, for `POST /verify` as `token_hash`."""
    verification_type: str
    redirect_to: str


class Pagination(TypedDict):
    """The position of the next page."""

    next_cursor: NotRequired[str]
    has_more: bool


class UserList(TypedDict):
    """Users of one audience."""

    users: list[User]
    aud: str
    pagination: NotRequired[Pagination]
    """Present with pagination by cursor."""


class AuditEntry(TypedDict):
    """An entry of the audit trail."""

    id: UUID
    payload: dict[str, Any]
    """The event: `action`, `actor_id`, `log_type`, `traits` and so on."""
    created_at: Moment | None
    ip_address: str
