"""Request and response bodies of passkeys, as the description of the API shows them."""

from __future__ import annotations

from typing import Any, ClassVar, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import Moment
from authsvc.api.parsing import Body


class CredentialInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("challenge_id", "credential")
    challenge_id: str | None = None
    credential: Any = None
    """The result of `navigator.credentials`."""


class PasskeyInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("friendly_name",)
    friendly_name: str | None = None


class PasskeyChallenge(TypedDict):
    """A ceremony of a passkey, which can be completed once."""

    challenge_id: UUID
    options: dict[str, Any]
    """For `navigator.credentials` (WebAuthn Level 3 §5.1)."""
    expires_at: int
    """Unix seconds."""


class Passkey(TypedDict):
    """A passkey of a user."""

    id: UUID
    created_at: Moment
    friendly_name: NotRequired[str]
    last_used_at: NotRequired[Moment]
