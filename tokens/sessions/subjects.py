"""What a user must offer to be put into a token, and how `tokens` reads one without knowing `accounts`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from uuid import UUID

from authsvc.registration import Slot

if TYPE_CHECKING:
    from tokens.sessions.aal import AmrEntry


class Subject(Protocol):
    """The user behind a session, as far as tokens are concerned."""

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
        """A JSON object as text, so that it is never parsed on its way from the row into a token."""

    @property
    def user_metadata_json(self) -> str: ...
    @property
    def is_anonymous(self) -> bool: ...
    @property
    def banned_until(self) -> datetime | None: ...
    @property
    def has_verified_factor(self) -> bool: ...


BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the creation of an imported session that does not say when it began, so that every limit has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """A session as read, without a model instance."""

    id: UUID
    user_id: UUID
    created_at: datetime
    refreshed_at: datetime | None = None
    not_after: datetime | None = None
    aal: str = "aal1"
    tag: str | None = None
    oauth_client_id: UUID | None = None
    scopes: str | None = None
    refresh_token_hmac_key: str | None = field(default=None, repr=False)
    refresh_token_counter: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A user with the session they act in; no session for a token without one, or when it has ended."""

    subject: Subject
    session: SessionFacts | None
    amr: tuple[AmrEntry, ...] = ()
    is_authenticated: ClassVar[bool] = True
    """For the permissions and throttles of DRF, as is `pk`."""

    @property
    def pk(self) -> str:
        return str(self.subject.id)

    @property
    def is_aal2(self) -> bool:
        """Whether a second factor was shown in this session, and has not been taken away since."""
        return self.session is not None and self.session.aal == "aal2"


class UserSource(Protocol):
    """Reads users and sessions for `tokens`; implemented by the app that owns the users."""

    def by_id(self, user_id: UUID) -> Subject | None: ...

    def signed_in(self, *, user_id: UUID, session_id: UUID | None) -> SignedIn | None:
        """A user by id, and the session if it exists and is theirs. One statement."""

    def with_session(self, session_id: UUID) -> SignedIn | None:
        """A session with its user. One statement."""

    def note_sign_in(self, subject: Subject, *, at: datetime) -> Subject:
        """Record `last_sign_in_at` and return the user as it stands afterwards. Joins the caller's transaction."""

    def present(self, subject: Subject) -> dict[str, Any]:
        """The user as JSON-ready object of a token response."""


user_source: Slot[UserSource] = Slot("UserSource")
