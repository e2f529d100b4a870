"""SMS through Vonage."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlencode

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer.sms import base

# Missing, invalid or too long values, numbers that cannot or must not be reached, invalid senders.
_PERMANENT_CODES = frozenset({"2", "3", "6", "7", "12", "15", "22", "29", "33"})


class Vonage:
    origin: ClassVar[str] = "https://rest.nexmo.com"

    def send(self, message: base.SmsMessage) -> str:
        base.require_sms_channel(message, gateway="Vonage")
        config = conf.current().sms.vonage
        form = {
            "from": config.sender,
            "to": message.to,
            "text": message.body,
            "api_key": config.api_key.reveal(),
            "api_secret": config.api_secret.reveal(),
        }
        if not message.body.isascii():
            form["type"] = "unicode"
        response = base.post(f"{self.origin}/sms/json", gateway="vonage", form=form)
        # Rejections have HTTP status 200.
        status = response.text("messages", 0, "status")
        if not status:
            raise DeliveryFailed("vonage error: Internal Error", permanent=response.is_permanent)
        message_id = response.text("messages", 0, "message-id")
        if status != "0":
            error_text = response.text("messages", 0, "error-text")
            text = f"vonage error: {error_text} (status: {status}) for message {message_id}".rstrip()
            raise DeliveryFailed(text, permanent=status in _PERMANENT_CODES)
        return message_id

    def check_credentials(self) -> None:
        config = conf.current().sms.vonage
        query = urlencode({"api_key": config.api_key.reveal(), "api_secret": config.api_secret.reveal()})
        base.get(f"{self.origin}/account/get-balance?{query}", gateway="vonage")
