"""The user and session as `tokens` sees them, and the interface through which it reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol
from uuid import UUID

from authsvc.events import ActorType, EventActor
from tokens.jwt.access_tokens import AmrEntry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The creation time of an imported session without one, so that every time limit has passed."""


class TokenUser(Protocol):
    """The attributes of a user that tokens need."""

    @property
    def id(self) -> UUID: ...
    @property
    def aud(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def email(self) -> str:
        """`""` when there is none."""

    @property
    def phone(self) -> str:
        """Digits without `+`; `""` when there is none."""

    @property
    def is_sso_user(self) -> bool: ...
    @property
    def full_name(self) -> object: ...

    @property
    def app_metadata_json(self) -> str:
        """A JSON object as text, copied from the row into the token without parsing."""

    @property
    def user_metadata_json(self) -> str: ...
    @property
    def is_anonymous(self) -> bool: ...
    @property
    def banned_until(self) -> datetime | None: ...
    @property
    def deleted_at(self) -> datetime | None:
        """The time of a soft deletion."""

    @property
    def has_verified_factor(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """The row of a session, without a model instance."""

    id: UUID
    user_id: UUID
    created_at: datetime
    refreshed_at: datetime | None = None
    not_after: datetime | None = None
    aal: str = "aal1"
    tag: str | None = None
    oauth_client_id: UUID | None = None
    scopes: str | None = None
    resource: str | None = None
    """The resources (RFC 8707), separated by spaces, for which an OAuth client requested its tokens."""
    refresh_token_hmac_key: str | None = field(default=None, repr=False)
    refresh_token_counter: int | None = None
    impersonator_id: UUID | None = None
    """The operator who uses the application as the user in this session."""
    impersonator_session_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedInUser:
    """A user with their current session; `session` is None for a token without one, or when it has ended."""

    user: TokenUser
    session: SessionRecord | None
    amr: tuple[AmrEntry, ...] = ()
    is_authenticated: ClassVar[bool] = True
    """Used by the permissions and throttles of DRF, like `pk`."""

    @property
    def pk(self) -> str:
        return str(self.user.id)

    @property
    def is_aal2(self) -> bool:
        """True if a second factor was verified in this session and still exists."""
        return self.session is not None and self.session.aal == "aal2"

    @property
    def is_impersonated(self) -> bool:
        """True if an operator uses the application as the user in this session."""
        return self.session is not None and self.session.impersonator_id is not None


def actor_of(user: TokenUser) -> EventActor:
    """A user as the actor of lifecycle events."""
    return EventActor(type=ActorType.USER, id=user.id, role=user.role)


class UserSource(Protocol):
    """Reads users and sessions; implemented by the app that owns the users."""

    def find_user(self, user_id: UUID) -> TokenUser | None:
        """A user by id; None for a soft-deleted one."""

    def find_signed_in_user(self, *, user_id: UUID, session_id: UUID | None) -> SignedInUser | None:
        """A user by id, with the session if it exists and belongs to them. One statement.

        A soft-deleted user has no session.
        """

    def find_by_session(self, session_id: UUID) -> SignedInUser | None:
        """A session with its user; None for a soft-deleted user. One statement."""

    def record_sign_in(self, user: TokenUser, *, at: datetime) -> TokenUser:
        """Update `last_sign_in_at` and return the changed user. Joins the caller's transaction."""

    def user_json(self, user: TokenUser) -> dict[str, Any]:
        """The user as the JSON-ready object of a token response."""


user_source: UserSource
"""Set by `AppConfig.ready()` of the app that owns the users."""
