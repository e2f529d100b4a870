"""SMS through Textlocal."""

from __future__ import annotations

from typing import ClassVar

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer.sms import base

_NO_TEMPLATE = "80"
# Missing number, missing or too long text, malformed number, invalid number, and no approved template for the text.
_PERMANENT_CODES = frozenset({"4", "5", "6", "32", "51", _NO_TEMPLATE})


class Textlocal:
    origin: ClassVar[str] = "https://api.textlocal.in"

    def send(self, message: base.SmsMessage) -> str:
        base.require_sms_channel(message, gateway="TextLocal")
        config = conf.current().sms.textlocal
        response = base.post(
            f"{self.origin}/send",
            gateway="textlocal",
            form={
                "sender": config.sender,
                "apikey": config.api_key.reveal(),
                "message": message.body,
                "numbers": message.to,
            },
        )
        # Rejections have HTTP status 200.
        if response.text("status") != "success":
            raise _rejection(response, message)
        return response.text("messages", 0, "id")

    def check_credentials(self) -> None:
        key = conf.current().sms.textlocal.api_key.reveal()
        response = base.post(f"{self.origin}/balance", gateway="textlocal", form={"apikey": key})
        if response.text("status") != "success":
            raise DeliveryFailed(f"textlocal error: {response.text('errors', 0, 'message') or 'no success'}")


def _rejection(response: base.GatewayResponse, message: base.SmsMessage) -> DeliveryFailed:
    reason, code = response.text("errors", 0, "message"), response.text("errors", 0, "code")
    if not reason and not code:
        return DeliveryFailed(f"textlocal error: status {response.status}", permanent=response.is_permanent)
    message_id = response.text("messages", 0, "id")
    details = f"template message: {message.body}" if code == _NO_TEMPLATE else f"message {message_id}"
    return DeliveryFailed(
        f"textlocal error: {reason} (code: {code}) {details}".rstrip(), permanent=code in _PERMANENT_CODES
    )
