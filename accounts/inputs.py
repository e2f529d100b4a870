"""Bodies of the endpoints of accounts. Null is the same as absent; unknown keys are ignored."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

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
    """Of a change of address."""
    password: str | None = None
    """Of a new account; on one that exists it takes the place of the present one."""
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
    """The policy of passwords does not hold here."""
    password_hash: str | None = None
    """bcrypt, Argon2i, Argon2id or Firebase scrypt, in place of a password."""
    email_confirm: bool | None = None
    """Whether the address counts as confirmed."""
    phone_confirm: bool | None = None
    """Whether the number counts as confirmed."""
    user_metadata: dict[str, Any] | None = None
    app_metadata: dict[str, Any] | None = None
    ban_duration: str | None = None
    """`24h`, `2h45m`; `none` ends a ban."""


class ChangeUserInput(Body, frozen=True):
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    email_confirm: bool | None = None
    """Whether the address counts as confirmed."""
    phone_confirm: bool | None = None
    """Whether the number counts as confirmed."""
    user_metadata: dict[str, Any] | None = None
    """Merged; null deletes a key."""
    app_metadata: dict[str, Any] | None = None
    """Merged; null deletes a key."""
    ban_duration: str | None = None
    """`24h`, `2h45m`; `none` ends a ban."""


class DeleteUserInput(Body, frozen=True):
    should_soft_delete: bool | None = None
    """Keep the row, made unreadable."""


class ChangeFactorInput(Body, frozen=True):
    friendly_name: str | None = None
    phone: str | None = None
    """Of a phone factor."""


class FactorInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("factor_type",)
    factor_type: str | None = None
    """`totp`, `phone` or `webauthn`."""
    friendly_name: str | None = None
    """Not that of another factor."""
    issuer: str | None = None
    """Of an authenticator app; the host of the site unless given."""
    phone: str | None = None
    """Of a phone."""


class ChallengeInput(Body, frozen=True):
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway; for a phone."""
    webauthn: dict[str, Any] | None = None


class FactorAnswerInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("challenge_id",)
    challenge_id: UUID | None = None
    code: str | None = None
    """Of an app, or of a text message."""
    webauthn: dict[str, Any] | None = None
    """Of a security key: `type` as in the challenge, and `credential_response`."""


class RecoveryCodeInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("code",)
    code: str | None = None


class CredentialInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("challenge_id", "credential")
    challenge_id: str | None = None
    credential: Any = None
    """What `navigator.credentials` returned; judged where it is verified."""


class PasskeyInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("friendly_name",)
    friendly_name: str | None = None
