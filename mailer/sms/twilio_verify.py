"""Twilio's verification service, which makes, delivers and checks codes of its own."""

from __future__ import annotations

import logging
from typing import ClassVar
from urllib.parse import quote

from authsvc import conf
from mailer.errors import NotDelivered
from mailer.sms import base, twilio

logger = logging.getLogger(__name__)


class TwilioVerify:
    """Asks for a code to be sent; ours is not in it."""

    origin: ClassVar[str] = "https://verify.twilio.com"

    def send(self, text: base.Text) -> str:
        answer = _post("Verifications", {"To": f"+{text.to}", "Channel": text.channel})
        if answer.status not in (200, 201):
            raise twilio.refusal(answer)
        return answer.text("sid")

    def try_out(self) -> None:
        config = conf.current().sms.twilio_verify
        url = f"{self.origin}/v2/Services/{quote(config.message_service_sid, safe='')}"
        base.get(url, gateway="twilio_verify", auth=(config.account_sid, config.auth_token.reveal()))


class TwilioPhoneVerifier:
    """Has Twilio check the codes that it has sent (`authsvc.messaging.PhoneVerifier`)."""

    def is_approved(self, *, phone: str, code: str) -> bool:
        if conf.current().sms.twilio_verify.missing:
            return False
        try:
            answer = _post("VerificationCheck", {"To": f"+{phone}", "Code": code})
        except NotDelivered as error:
            _warn(str(error))
            return False
        # 404 is how a verification answers that is over or was never begun.
        if answer.status not in (200, 201, 404):
            _warn(f"twilio error: status {answer.status}")
        is_approved = answer.text("status") == "approved" and answer.value("valid") is True
        return is_approved and answer.status in (200, 201)


def _post(resource: str, form: dict[str, str]) -> base.Answer:
    config = conf.current().sms.twilio_verify
    return base.post(
        f"{TwilioVerify.origin}/v2/Services/{quote(config.message_service_sid, safe='')}/{resource}",
        gateway="twilio_verify",
        form=form,
        auth=(config.account_sid, config.auth_token.reveal()),
    )


def _warn(error: str) -> None:
    logger.warning("the code could not be checked", extra={"event": "sms.verification", "error": error})
