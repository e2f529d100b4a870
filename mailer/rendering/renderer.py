"""Renders messages: the subject, HTML body and plain-text body of an email, and the text of an SMS."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from authsvc import conf, languages
from authsvc.messaging import EmailType, SmsType
from mailer import gotemplate
from mailer.rendering import message_types, plain_text, template_cache
from mailer.rendering.template_sources import MessageTemplates

_compile = functools.lru_cache(maxsize=128)(gotemplate.compile)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered email: a subject of one line, the HTML body and its plain-text alternative."""

    subject: str = field(repr=False)
    html: str = field(repr=False)
    text: str = field(repr=False)


def render(type: EmailType, variables: Mapping[str, Any], *, language: str = "") -> Rendered:
    """Render an email type in `language`, or in the default language if this one is not offered.

    Variables that do not belong to the type are ignored.

    May fetch a template. Raises `gotemplate.TemplateRenderError` if the rendered text exceeds its limits.
    """
    return render_templates(template_cache.shared.get(type, languages.select(language)), type, variables)


def render_templates(templates: MessageTemplates, type: EmailType, variables: Mapping[str, Any]) -> Rendered:
    """Render an email type with these templates."""
    visible = _only(variables, message_types.EMAIL_DEFINITIONS[type].variables) | {"Language": templates.language}
    subject = templates.subject.render(visible, mode=gotemplate.Mode.TEXT)
    html = templates.html.render(visible, mode=gotemplate.Mode.HTML)
    text = templates.text.render(visible, mode=gotemplate.Mode.TEXT) if templates.text else plain_text.from_html(html)
    return Rendered(
        subject="".join(subject.splitlines()),  # a line break would start another header
        html=html,
        text=text,
    )


def render_sms(type: SmsType, variables: Mapping[str, Any], *, language: str = "") -> str:
    """Render the text of an SMS type in `language`, as `render`, with `Code` as its only variable.

    Raises `gotemplate.TemplateSyntaxError` if the configured text is not a valid template.
    """
    visible = _only(variables, message_types.SMS_VARIABLES)
    config = conf.current()
    text = config.mfa.phone_template if type is SmsType.FACTOR else config.sms.template
    translated = languages.translate(text, languages.select(language))
    return _compile(translated).render(visible, mode=gotemplate.Mode.TEXT)


def _only(variables: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name in names}
