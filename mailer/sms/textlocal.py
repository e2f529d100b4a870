"""Textlocal's text messages."""

from __future__ import annotations

from typing import ClassVar

from authsvc import conf
from mailer.errors import NotDelivered
from mailer.sms import base

_TEMPLATE = "80"
# No number, no text or too long a one, a number of no form, no good number, and a text that no approved template makes.
_FINAL = frozenset({"4", "5", "6", "32", "51", _TEMPLATE})


class Textlocal:
    origin: ClassVar[str] = "https://api.textlocal.in"

    def send(self, text: base.Text) -> str:
        base.refuse_whatsapp(text, gateway="TextLocal")
        config = conf.current().sms.textlocal
        answer = base.post(
            f"{self.origin}/send",
            gateway="textlocal",
            form={
                "sender": config.sender,
                "apikey": config.api_key.reveal(),
                "message": text.body,
                "numbers": text.to,
            },
        )
        # The HTTP status says nothing here: refusals come with 200.
        if answer.text("status") != "success":
            raise _refusal(answer, text)
        return answer.text("messages", 0, "id")

    def try_out(self) -> None:
        key = conf.current().sms.textlocal.api_key.reveal()
        answer = base.post(f"{self.origin}/balance", gateway="textlocal", form={"apikey": key})
        if answer.text("status") != "success":
            raise NotDelivered(f"textlocal error: {answer.text('errors', 0, 'message') or 'no success'}")


def _refusal(answer: base.Answer, text: base.Text) -> NotDelivered:
    message, code = answer.text("errors", 0, "message"), answer.text("errors", 0, "code")
    if not message and not code:
        return NotDelivered(f"textlocal error: status {answer.status}", permanent=answer.is_final)
    said = f"textlocal error: {message} (code: {code}) "
    said += f"template message: {text.body}" if code == _TEMPLATE else f"message {answer.text('messages', 0, 'id')}"
    return NotDelivered(said.rstrip(), permanent=code in _FINAL)
