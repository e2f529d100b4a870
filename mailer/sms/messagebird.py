"""SMS through MessageBird."""

from __future__ import annotations

from typing import ClassVar

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer.sms import base


class Messagebird:
    origin: ClassVar[str] = "https://rest.messagebird.com"

    def send(self, message: base.SmsMessage) -> str:
        base.require_sms_channel(message, gateway="Messagebird")
        config = conf.current().sms.messagebird
        response = base.post(
            f"{self.origin}/messages",
            gateway="messagebird",
            form={
                "originator": config.originator,
                "body": message.body,
                "recipients": message.to,
                "type": "sms",
                "datacoding": "unicode",
            },
            headers={"Authorization": f"AccessKey {config.access_key.reveal()}"},
        )
        if response.status in (400, 401, 403, 422):
            description = response.text("errors", 0, "description")
            error_text = description or f"messagebird error: status {response.status}"
            raise DeliveryFailed(error_text, permanent=response.is_permanent)
        if response.text("recipients", "totalSentCount") in ("", "0"):
            raise DeliveryFailed("messagebird error: total sent count is 0")
        return response.text("id")

    def check_credentials(self) -> None:
        key = conf.current().sms.messagebird.access_key.reveal()
        base.get(f"{self.origin}/balance", gateway="messagebird", headers={"Authorization": f"AccessKey {key}"})
