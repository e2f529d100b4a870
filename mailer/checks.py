"""The check that the text of an SMS is a template, so that a broken one stops the start."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

from mailer import syntax


@register(Tags.templates)
def sms_template_can_be_read(**_: Any) -> list[CheckMessage]:
    sms = settings.AUTH.sms
    try:
        syntax.compile(sms.template)
    except syntax.TemplateSyntaxError as error:
        return [Error(f"AUTH_SMS_TEMPLATE: not a template: {error}", id="mailer.E001")] if sms.provider else []
    return []
