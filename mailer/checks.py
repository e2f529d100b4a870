"""System check of the SMS templates; an invalid template prevents the start."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from authsvc import conf
from mailer import gotemplate


@register(Tags.templates)
def check_sms_templates(**_: Any) -> list[CheckMessage]:
    sms, mfa = conf.current().sms, conf.current().mfa
    errors: list[CheckMessage] = []
    for name, text, is_used in (
        ("AUTH_SMS_TEMPLATE", sms.template, bool(sms.provider)),
        ("AUTH_MFA_PHONE_TEMPLATE", mfa.phone_template, mfa.phone_enroll_enabled or mfa.phone_verify_enabled),
    ):
        try:
            gotemplate.compile(text)
        except gotemplate.TemplateSyntaxError as error:
            if is_used:
                errors.append(Error(f"{name} is not a valid template: {error}", id="mailer.E001"))
    return errors
