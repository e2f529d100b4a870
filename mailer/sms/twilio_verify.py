"""Twilio Verify, a service that generates, delivers and checks the codes itself."""

from __future__ import annotations

import logging
from typing import ClassVar
from urllib.parse import quote

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from mailer.sms import base, twilio

logger = logging.getLogger(__name__)


class TwilioVerify:
    """Requests that Twilio sends its own code instead of ours."""

    origin: ClassVar[str] = "https://verify.twilio.com"

    def send(self, message: base.SmsMessage) -> str:
        response = _post("Verifications", {"To": f"+{message.to}", "Channel": message.channel})
        if response.status not in (200, 201):
            raise twilio.rejection(response)
        return response.text("sid")

    def check_credentials(self) -> None:
        config = conf.current().sms.twilio_verify
        url = f"{self.origin}/v2/Services/{quote(config.message_service_sid, safe='')}"
        base.get(url, gateway="twilio_verify", auth=(config.account_sid, config.auth_token.reveal()))


class TwilioPhoneVerifier:
    """Has Twilio check the codes that it has sent (`authsvc.messaging.PhoneVerifier`)."""

    def is_approved(self, *, phone: str, code: str) -> bool:
        if conf.current().sms.twilio_verify.missing:
            return False
        try:
            response = _post("VerificationCheck", {"To": f"+{phone}", "Code": code})
        except DeliveryFailed as error:
            _warn(str(error))
            return False
        # 404 means that the verification has ended or does not exist.
        if response.status not in (200, 201, 404):
            _warn(f"twilio error: status {response.status}")
        is_approved = response.text("status") == "approved" and response.value("valid") is True
        return is_approved and response.status in (200, 201)


def _post(resource: str, form: dict[str, str]) -> base.GatewayResponse:
    config = conf.current().sms.twilio_verify
    return base.post(
        f"{TwilioVerify.origin}/v2/Services/{quote(config.message_service_sid, safe='')}/{resource}",
        gateway="twilio_verify",
        form=form,
        auth=(config.account_sid, config.auth_token.reveal()),
    )


def _warn(error: str) -> None:
    logger.warning("code could not be verified", extra={"event": "sms.verification", "error": error})
