"""Request and response bodies of second factors, as the description of the API shows them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NotRequired, TypedDict
from uuid import UUID

from accounts.schemas import FactorTypeName
from authsvc.api.parsing import Body


class FactorInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("factor_type",)
    example: ClassVar[tuple[str, ...]] = ("factor_type", "friendly_name")
    factor_type: str | None = None
    """`totp`, `phone` or `webauthn`."""
    friendly_name: str | None = None
    """Must differ from the names of the user's other factors."""
    issuer: str | None = None
    """Issuer shown in an authenticator app; defaults to the host of the site."""
    phone: str | None = None
    """Required for a phone factor."""


class ChallengeInput(Body, frozen=True):
    channel: str | None = None
    """For a phone factor: `sms`, or `whatsapp` with a Twilio gateway."""
    webauthn: dict[str, Any] | None = None


class FactorAnswerInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("challenge_id",)
    example: ClassVar[tuple[str, ...]] = ("challenge_id", "code")
    challenge_id: UUID | None = None
    code: str | None = None
    """The code of an authenticator app or of an SMS."""
    webauthn: dict[str, Any] | None = None
    """The response of a security key: `type` as in the challenge, and `credential_response`."""


class RecoveryCodeInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("code",)
    code: str | None = None


class TotpSeed(TypedDict):
    """The secret for an authenticator app, shown once."""

    qr_code: str
    """SVG of `uri` as a QR code."""
    secret: str
    """Base32."""
    uri: str
    """`otpauth://…`."""


class EnrolledFactor(TypedDict):
    """A new factor, which counts after its first verification."""

    id: UUID
    type: FactorTypeName
    friendly_name: str
    totp: NotRequired[TotpSeed]
    phone: NotRequired[str]


class WebAuthnCeremony(TypedDict):
    """The ceremony that the browser must perform with a security key."""

    type: Literal["create", "request"]
    credential_options: dict[str, Any]
    """For `navigator.credentials` (WebAuthn Level 3 §5.1)."""


class FactorChallenge(TypedDict):
    """A challenge of a factor, which can be verified once."""

    id: UUID
    type: FactorTypeName
    expires_at: int
    """Unix seconds."""
    webauthn: NotRequired[WebAuthnCeremony]


class RemovedFactor(TypedDict):
    """The removed factor."""

    id: UUID


class RemainingCodes(TypedDict):
    """The number of recovery codes that are left."""

    remaining: int


class RecoveryCodes(TypedDict):
    """Ten new recovery codes, shown once."""

    codes: list[str]
