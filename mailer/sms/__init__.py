"""The gateways of text messages: one module each, and the one that the settings choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from authsvc import conf
from mailer.sms import messagebird, textlocal, twilio, twilio_verify, vonage
from mailer.sms.base import Gateway, Text

__all__ = ["GATEWAYS", "Gateway", "Text", "configured"]

GATEWAYS: Mapping[str, Callable[[], Gateway]] = {
    "twilio": twilio.Twilio,
    "twilio_verify": twilio_verify.TwilioVerify,
    "messagebird": messagebird.Messagebird,
    "textlocal": textlocal.Textlocal,
    "vonage": vonage.Vonage,
}
"""SMS_PROVIDER → its gateway."""


def configured() -> Gateway | None:
    """The gateway to use; None while none is set or its credentials are not complete."""
    sms = conf.current().sms
    return GATEWAYS[sms.provider]() if sms.is_usable else None
