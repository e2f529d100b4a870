"""SMS and WhatsApp messages through Twilio."""

from __future__ import annotations

import json
import re
from typing import ClassVar
from urllib.parse import quote

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer.sms import base

_NUMBER = re.compile(r"[1-9][0-9]{1,14}")


class Twilio:
    origin: ClassVar[str] = "https://api.twilio.com"

    def send(self, message: base.SmsMessage) -> str:
        config = conf.current().sms.twilio
        response = base.post(
            f"{self.origin}/2010-04-01/Accounts/{quote(config.account_sid, safe='')}/Messages.json",
            gateway="twilio",
            form=_form(message),
            auth=(config.account_sid, config.auth_token.reveal()),
        )
        if response.status not in (200, 201):
            raise rejection(response)
        if response.text("status") in ("failed", "undelivered"):
            reason, code, sid = (response.text(name) for name in ("error_message", "error_code", "sid"))
            cause = " ".join(filter(None, (reason, code)))
            raise DeliveryFailed(f"twilio error: {cause} for message {sid}")
        return response.text("sid")

    def check_credentials(self) -> None:
        config = conf.current().sms.twilio
        url = f"{self.origin}/2010-04-01/Accounts/{quote(config.account_sid, safe='')}.json"
        base.get(url, gateway="twilio", auth=(config.account_sid, config.auth_token.reveal()))


def rejection(response: base.GatewayResponse) -> DeliveryFailed:
    """The error for a response whose status is not 200 or 201."""
    message, more = response.text("message"), response.text("more_info")
    error_text = f"{message} More information: {more}" if message or more else f"twilio error: status {response.status}"
    return DeliveryFailed(error_text.rstrip(), permanent=response.is_permanent)


def _form(message: base.SmsMessage) -> dict[str, str]:
    config = conf.current().sms.twilio
    sender = config.message_service_sid
    form = {"To": f"+{message.to}", "Channel": message.channel, "From": sender}
    if message.channel == "whatsapp":
        form["To"] = f"whatsapp:+{message.to}"
        # A messaging service selects its sender; a phone number needs the prefix of WhatsApp.
        if _NUMBER.fullmatch("".join(sender.split()).removeprefix("+")):
            form["From"] = f"whatsapp:{sender}"
        if config.content_sid:
            # WhatsApp delivers codes only in approved templates.
            return form | {"ContentSid": config.content_sid, "ContentVariables": json.dumps({"1": message.code})}
    return form | {"Body": message.body}
