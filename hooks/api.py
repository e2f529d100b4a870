"""Public names for Python hooks: the hooks, their payloads and responses, and a refusal.

Changes follow semantic versioning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from authsvc.conf.sections.hooks import Hook
from hooks.errors import HookRejection

__all__ = [
    "AccessTokenPayload",
    "AccessTokenResponse",
    "AttemptResponse",
    "EmailData",
    "FactorAttemptPayload",
    "Hook",
    "HookEvent",
    "HookRejection",
    "Metadata",
    "PasswordAttemptPayload",
    "SendEmailPayload",
    "SendSmsPayload",
    "SmsData",
    "UserPayload",
]

Payload = TypeVar("Payload")


class Metadata(TypedDict):
    uuid: str
    """Of the call; repeated deliveries of a message have the same one."""
    time: str
    """RFC 3339, in UTC."""
    name: str
    """The value of a `Hook`."""
    ip_address: NotRequired[str]
    """Of the client."""


class AccessTokenPayload(TypedDict):
    metadata: Metadata
    user_id: str
    claims: dict[str, Any]
    authentication_method: str
    """The method of the sign-in, such as `password`, or `token_refresh`."""


class AccessTokenResponse(TypedDict):
    claims: dict[str, Any]
    """All claims of the token."""


class EmailData(TypedDict):
    token: str
    token_hash: str
    redirect_to: str
    email_action_type: str
    site_url: str
    token_new: str
    token_hash_new: str
    old_email: str
    old_phone: str
    provider: str
    factor_type: str
    recipient: str


class SendEmailPayload(TypedDict):
    metadata: Metadata
    user: dict[str, Any]
    email_data: EmailData


class SmsData(TypedDict):
    otp: str
    phone: str
    """Without `+`."""
    channel: NotRequired[str]
    """`whatsapp` or another channel that the request names; absent for `sms`."""
    sms_type: NotRequired[str]
    """`mfa` for the code of a second factor."""


class SendSmsPayload(TypedDict):
    metadata: Metadata
    user: dict[str, Any]
    sms: SmsData


class FactorAttemptPayload(TypedDict):
    metadata: Metadata
    user_id: str
    factor_id: str
    factor_type: str
    valid: bool


class PasswordAttemptPayload(TypedDict):
    metadata: Metadata
    user_id: str
    valid: bool


class AttemptResponse(TypedDict):
    """The response to both kinds of attempts."""

    decision: Literal["continue", "reject"]
    message: NotRequired[str]
    should_logout_user: NotRequired[bool]
    """For a rejected password: end all sessions of the user."""


class UserPayload(TypedDict):
    """The payload of the hooks before and after a user is created."""

    metadata: Metadata
    user: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(Generic[Payload]):
    """One call of a hook."""

    name: str
    """The name of the hook, such as `customize-access-token`."""
    payload: Payload = field(repr=False)
    """A copy of the payload, which the function may change without an effect."""
    deadline: float
    """The time on the monotonic clock at which the service stops waiting for the function."""
