"""Vonage's text messages."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlencode

from authsvc import conf
from mailer.errors import NotDelivered
from mailer.sms import base

# Something missing, wrong or too long, a number that cannot or must not be reached, a sender that may not be one.
_FINAL = frozenset({"2", "3", "6", "7", "12", "15", "22", "29", "33"})


class Vonage:
    origin: ClassVar[str] = "https://rest.nexmo.com"

    def send(self, text: base.Text) -> str:
        base.refuse_whatsapp(text, gateway="Vonage")
        config = conf.current().sms.vonage
        form = {
            "from": config.sender,
            "to": text.to,
            "text": text.body,
            "api_key": config.api_key.reveal(),
            "api_secret": config.api_secret.reveal(),
        }
        if not text.body.isascii():
            form["type"] = "unicode"
        answer = base.post(f"{self.origin}/sms/json", gateway="vonage", form=form)
        # The HTTP status says nothing here: refusals come with 200.
        status = answer.text("messages", 0, "status")
        if not status:
            raise NotDelivered("vonage error: Internal Error", permanent=answer.is_final)
        message_id = answer.text("messages", 0, "message-id")
        if status != "0":
            said = answer.text("messages", 0, "error-text")
            raise NotDelivered(
                f"vonage error: {said} (status: {status}) for message {message_id}".rstrip(), permanent=status in _FINAL
            )
        return message_id

    def try_out(self) -> None:
        config = conf.current().sms.vonage
        query = urlencode({"api_key": config.api_key.reveal(), "api_secret": config.api_secret.reveal()})
        base.get(f"{self.origin}/account/get-balance?{query}", gateway="vonage")
