"""SMS gateways: one module per provider, and the one that the settings select."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from authsvc import conf
from mailer.sms import messagebird, textlocal, twilio, twilio_verify, vonage
from mailer.sms.base import Gateway, SmsMessage

__all__ = ["GATEWAYS", "Gateway", "SmsMessage", "configured_gateway"]

GATEWAYS: Mapping[str, Callable[[], Gateway]] = {
    "twilio": twilio.Twilio,
    "twilio_verify": twilio_verify.TwilioVerify,
    "messagebird": messagebird.Messagebird,
    "textlocal": textlocal.Textlocal,
    "vonage": vonage.Vonage,
}
"""SMS_PROVIDER → gateway."""


def configured_gateway() -> Gateway | None:
    """The gateway of the settings; None if none is set or its credentials are incomplete."""
    sms = conf.current().sms
    return GATEWAYS[sms.provider]() if sms.is_usable else None
