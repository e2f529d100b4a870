"""Bodies of the endpoints of accounts. Null is the same as absent; unknown keys are ignored."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from authsvc.api.parsing import Body


class SignUpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    data: dict[str, Any] | None = None
    """Becomes `user_metadata`."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class PasswordInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("password",)
    email: str | None = None
    phone: str | None = None
    password: str | None = None


class VerifyInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    type: str | None = None
    """What was sent: `signup`, `invite`, `recovery`, `magiclink`, `email`, `email_change`, `sms`, `phone_change`."""
    token: str | None = None
    """The code, with the address or number it was sent to; or the token of a link."""
    token_hash: str | None = None
    """The token of a link; nothing but `type` and `password` may come with it."""
    email: str | None = None
    phone: str | None = None
    redirect_to: str | None = None
    password: str | None = None
    """The first password of an account without one."""


class ConfirmForm(Body, frozen=True):
    """The fields of the confirm page; read by name."""

    needs: ClassVar[tuple[str, ...]] = ("type", "token")
    type: str | None = None
    token: str | None = None
    redirect_to: str | None = None


class OtpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    create_user: bool | None = None
    """Make an account where there is none; true unless given."""
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class MagicLinkInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("email",)
    email: str | None = None
    data: dict[str, Any] | None = None
    """`user_metadata` of a new account."""
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class RecoverInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("email",)
    email: str | None = None
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


class ResendInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("type",)
    type: str | None = None
    """`signup`, `email_change`, `sms` or `phone_change`."""
    email: str | None = None
    phone: str | None = None
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


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


class UserInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    current_password: str | None = None
    """Where the operator has it asked for."""
    nonce: str | None = None
    """The code of `GET /reauthenticate`, where it is asked for."""
    data: dict[str, Any] | None = None
    """Merged into `user_metadata`; null deletes a key."""
    app_metadata: dict[str, Any] | None = None
    """For administrators alone."""
    channel: str | None = None
    """`sms`, or `whatsapp` with a Twilio gateway."""
    code_challenge: str | None = None
    """Begins a PKCE flow (RFC 7636 §4.3)."""
    code_challenge_method: str | None = None
    """`s256` or `plain`."""


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
