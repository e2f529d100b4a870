"""Base of the SMS gateways: one HTTP request per message, whose response is an id or a DeliveryFailed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from authsvc.outgoing import http

_MAX_RESPONSE_BYTES = 65_536
# Client errors that concern the account or the gateway's load, so the same request may succeed later.
_TEMPORARY_STATUSES = frozenset({401, 402, 403, 408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class SmsMessage:
    """One rendered SMS or WhatsApp message."""

    to: str
    """Phone number in digits, without `+`."""
    channel: str
    """`sms` or `whatsapp`."""
    body: str = field(repr=False)
    code: str = field(repr=False)


class Gateway(Protocol):
    """Sends messages through one provider."""

    def send(self, message: SmsMessage) -> str:
        """Send one message and return the gateway's id, or an empty string if it has none.

        Raises DeliveryFailed, permanent if the gateway would reject the same message again.
        """

    def check_credentials(self) -> None:
        """Check the credentials with a request that sends no message. Raises DeliveryFailed if they are rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResponse:
    """Status and JSON document of a gateway's response."""

    status: int
    document: Any = field(repr=False)

    @property
    def is_permanent(self) -> bool:
        """True if the status means that the request itself is invalid."""
        return 400 <= self.status < 500 and self.status not in _TEMPORARY_STATUSES

    def value(self, *path: str | int) -> Any:
        """The value at a path of keys and indexes, or None."""
        value = self.document
        for key in path:
            try:
                value = value[key]
            except (TypeError, LookupError):
                return None
        return value

    def text(self, *path: str | int) -> str:
        """The string or number at a path, on one line; an empty string for other types."""
        value = self.value(*path)
        return " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def post(
    url: str,
    *,
    gateway: str,
    form: Mapping[str, str],
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> GatewayResponse:
    """POST a form. Raises DeliveryFailed without a JSON response; its text names `gateway`."""
    return _call("POST", url, gateway=gateway, form=form, auth=auth, headers=headers)


def get(
    url: str,
    *,
    gateway: str,
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> GatewayResponse:
    """GET a resource. Raises DeliveryFailed as `post` does, and for a status other than 2xx."""
    response = _call("GET", url, gateway=gateway, form=None, auth=auth, headers=headers)
    if not 200 <= response.status < 300:
        raise DeliveryFailed(f"{gateway} error: status {response.status}", permanent=response.is_permanent)
    return response


def _call(
    method: str,
    url: str,
    *,
    gateway: str,
    form: Mapping[str, str] | None,
    auth: tuple[str, str] | None,
    headers: Mapping[str, str] | None,
) -> GatewayResponse:
    try:
        response = http.send(
            method,
            url,
            form=form,
            auth=auth,
            headers=headers,
            timeout=conf.current().api.internal_http_timeout,
            max_bytes=_MAX_RESPONSE_BYTES,
        )
    except http.Unreachable as error:
        raise DeliveryFailed(f"{gateway} error: {error}") from error
    try:
        return GatewayResponse(status=response.status, document=response.json())
    except ValueError:
        unreadable = GatewayResponse(status=response.status, document=None)
        raise DeliveryFailed(
            f"{gateway} error: the response of status {response.status} is not JSON", permanent=unreadable.is_permanent
        ) from None


def require_sms_channel(message: SmsMessage, *, gateway: str) -> None:
    """For gateways without WhatsApp. Raises DeliveryFailed."""
    if message.channel == "whatsapp":
        raise DeliveryFailed(f'channel type "whatsapp" is not supported for {gateway}', permanent=True)
