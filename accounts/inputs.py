"""Bodies of the endpoints of accounts. Null is the same as absent; unknown keys are ignored."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from authsvc.core.web.inputs import Body


class SignUpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    data: dict[str, Any] | None = None
    channel: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class PasswordInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None


class VerifyInput(Body, frozen=True):
    type: str | None = None
    token: str | None = None
    token_hash: str | None = None
    email: str | None = None
    phone: str | None = None
    redirect_to: str | None = None
    password: str | None = None


class OtpInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    create_user: bool | None = None
    data: dict[str, Any] | None = None
    channel: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class MagicLinkInput(Body, frozen=True):
    email: str | None = None
    data: dict[str, Any] | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class RecoverInput(Body, frozen=True):
    email: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class ResendInput(Body, frozen=True):
    type: str | None = None
    email: str | None = None
    phone: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class InviteInput(Body, frozen=True):
    email: str | None = None
    data: dict[str, Any] | None = None


class GenerateLinkInput(Body, frozen=True):
    type: str | None = None
    email: str | None = None
    new_email: str | None = None
    password: str | None = None
    data: dict[str, Any] | None = None
    redirect_to: str | None = None


class NewUserInput(Body, frozen=True):
    id: str | None = None
    aud: str | None = None
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    password_hash: str | None = None
    email_confirm: bool | None = None
    phone_confirm: bool | None = None
    user_metadata: dict[str, Any] | None = None
    app_metadata: dict[str, Any] | None = None
    ban_duration: str | None = None


class ChangeUserInput(Body, frozen=True):
    role: str | None = None
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    email_confirm: bool | None = None
    phone_confirm: bool | None = None
    user_metadata: dict[str, Any] | None = None
    app_metadata: dict[str, Any] | None = None
    ban_duration: str | None = None


class DeleteUserInput(Body, frozen=True):
    should_soft_delete: bool | None = None


class ChangeFactorInput(Body, frozen=True):
    friendly_name: str | None = None
    phone: str | None = None


class UserInput(Body, frozen=True):
    email: str | None = None
    phone: str | None = None
    password: str | None = None
    current_password: str | None = None
    nonce: str | None = None
    data: dict[str, Any] | None = None
    app_metadata: dict[str, Any] | None = None
    channel: str | None = None
    code_challenge: str | None = None
    code_challenge_method: str | None = None


class FactorInput(Body, frozen=True):
    factor_type: str | None = None
    friendly_name: str | None = None
    issuer: str | None = None
    phone: str | None = None


class ChallengeInput(Body, frozen=True):
    channel: str | None = None
    webauthn: dict[str, Any] | None = None


class FactorAnswerInput(Body, frozen=True):
    challenge_id: UUID | None = None
    code: str | None = None
    webauthn: dict[str, Any] | None = None


class RecoveryCodeInput(Body, frozen=True):
    code: str | None = None


class CredentialInput(Body, frozen=True):
    challenge_id: str | None = None
    credential: Any = None
    """What `navigator.credentials` returned; judged where it is verified."""


class PasskeyInput(Body, frozen=True):
    friendly_name: str | None = None
