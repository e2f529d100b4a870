"""Twilio's messages, as SMS or over WhatsApp."""

from __future__ import annotations

import json
import re
from typing import ClassVar
from urllib.parse import quote

from authsvc import conf
from mailer.errors import NotDelivered
from mailer.sms import base

_NUMBER = re.compile(r"[1-9][0-9]{1,14}")


class Twilio:
    origin: ClassVar[str] = "https://api.twilio.com"

    def send(self, text: base.Text) -> str:
        config = conf.current().sms.twilio
        answer = base.post(
            f"{self.origin}/2010-04-01/Accounts/{quote(config.account_sid, safe='')}/Messages.json",
            gateway="twilio",
            form=_form(text),
            auth=(config.account_sid, config.auth_token.reveal()),
        )
        if answer.status not in (200, 201):
            raise refusal(answer)
        if answer.text("status") in ("failed", "undelivered"):
            message, code, sid = (answer.text(name) for name in ("error_message", "error_code", "sid"))
            cause = " ".join(filter(None, (message, code)))
            raise NotDelivered(f"twilio error: {cause} for message {sid}")
        return answer.text("sid")

    def try_out(self) -> None:
        config = conf.current().sms.twilio
        url = f"{self.origin}/2010-04-01/Accounts/{quote(config.account_sid, safe='')}.json"
        base.get(url, gateway="twilio", auth=(config.account_sid, config.auth_token.reveal()))


def refusal(answer: base.Answer) -> NotDelivered:
    """What an answer of another status than 200 and 201 says."""
    message, more = answer.text("message"), answer.text("more_info")
    said = f"{message} More information: {more}" if message or more else f"twilio error: status {answer.status}"
    return NotDelivered(said.rstrip(), permanent=answer.is_final)


def _form(text: base.Text) -> dict[str, str]:
    config = conf.current().sms.twilio
    sender = config.message_service_sid
    form = {"To": f"+{text.to}", "Channel": text.channel, "From": sender}
    if text.channel == "whatsapp":
        form["To"] = f"whatsapp:+{text.to}"
        # A messaging service knows its senders by itself; a number must be told to be one of WhatsApp.
        if _NUMBER.fullmatch("".join(sender.split()).removeprefix("+")):
            form["From"] = f"whatsapp:{sender}"
        if config.content_sid:
            # WhatsApp delivers codes only in texts that it has approved.
            return form | {"ContentSid": config.content_sid, "ContentVariables": json.dumps({"1": text.code})}
    return form | {"Body": text.body}
