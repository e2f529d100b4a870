"""Request and response bodies of second factors, as the description of the API shows them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NotRequired, TypedDict
from uuid import UUID

from authsvc.api.parsing import Body


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


class TotpSeed(TypedDict):
    """What an authenticator app is set up with, shown this once."""

    qr_code: str
    """SVG of the address below."""
    secret: str
    """Base32."""
    uri: str
    """`otpauth://…`."""


class EnrolledFactor(TypedDict):
    """A factor that counts from its first verification on."""

    id: UUID
    type: Literal["totp", "phone", "webauthn"]
    friendly_name: str
    totp: NotRequired[TotpSeed]
    phone: NotRequired[str]


class WebAuthnCeremony(TypedDict):
    """What a browser is to do with a security key."""

    type: Literal["create", "request"]
    credential_options: dict[str, Any]
    """For `navigator.credentials` (WebAuthn Level 3 §5.1)."""


class FactorChallenge(TypedDict):
    """A challenge of a factor, to be answered once."""

    id: UUID
    type: Literal["totp", "phone", "webauthn"]
    expires_at: int
    """Unix seconds."""
    webauthn: NotRequired[WebAuthnCeremony]


class RemovedFactor(TypedDict):
    """The factor that is no more."""

    id: UUID


class RemainingCodes(TypedDict):
    """How many recovery codes are left."""

    remaining: int


class RecoveryCodes(TypedDict):
    """Ten new recovery codes, shown this once."""

    codes: list[str]
