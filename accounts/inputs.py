"""Bodies of the endpoints of accounts. Null is the same as absent; unknown keys are ignored."""

from __future__ import annotations

from typing import Any, ClassVar

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
