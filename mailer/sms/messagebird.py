"""Messagebird's text messages."""

from __future__ import annotations

from typing import ClassVar

from authsvc import conf
from mailer.errors import NotDelivered
from mailer.sms import base


class Messagebird:
    origin: ClassVar[str] = "https://rest.messagebird.com"

    def send(self, text: base.Text) -> str:
        base.refuse_whatsapp(text, gateway="Messagebird")
        config = conf.current().sms.messagebird
        answer = base.post(
            f"{self.origin}/messages",
            gateway="messagebird",
            form={
                "originator": config.originator,
                "body": text.body,
                "recipients": text.to,
                "type": "sms",
                "datacoding": "unicode",
            },
            headers={"Authorization": f"AccessKey {config.access_key.reveal()}"},
        )
        if answer.status in (400, 401, 403, 422):
            said = answer.text("errors", 0, "description") or f"messagebird error: status {answer.status}"
            raise NotDelivered(said, permanent=answer.is_final)
        if answer.text("recipients", "totalSentCount") in ("", "0"):
            raise NotDelivered("messagebird error: total sent count is 0")
        return answer.text("id")

    def try_out(self) -> None:
        key = conf.current().sms.messagebird.access_key.reveal()
        base.get(f"{self.origin}/balance", gateway="messagebird", headers={"Authorization": f"AccessKey {key}"})
