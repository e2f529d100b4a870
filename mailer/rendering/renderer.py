"""Renders messages: the subject and the two forms of a mail's body, the text of an SMS."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from authsvc import conf
from authsvc.messaging import EmailKind, SmsKind
from mailer import gotemplate
from mailer.rendering import message_types, plain_text, template_cache
from mailer.rendering.template_sources import Source

_compiled = functools.lru_cache(maxsize=128)(gotemplate.compile)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail ready for delivery: a subject of one line, the HTML body and its plain-text alternative."""

    subject: str = field(repr=False)
    html: str = field(repr=False)
    text: str = field(repr=False)


def render(kind: EmailKind, variables: Mapping[str, Any]) -> Rendered:
    """The mail of a kind with its variables, of which only those of the kind are seen.

    May wait for a template to be fetched. Raises `syntax.TemplateRenderError` when the values make the text grow beyond
    its bounds.
    """
    return fill(template_cache.shared.get(kind), kind, variables)


def fill(source: Source, kind: EmailKind, variables: Mapping[str, Any]) -> Rendered:
    """The same from templates at hand."""
    visible = _only(variables, message_types.EMAILS[kind].variables)
    subject = source.subject.render(visible, mode=gotemplate.Mode.TEXT)
    html = source.html.render(visible, mode=gotemplate.Mode.HTML)
    return Rendered(
        subject="".join(subject.splitlines()),  # a line break would begin another header
        html=html,
        text=source.text.render(visible, mode=gotemplate.Mode.TEXT) if source.text else plain_text.of(html),
    )


def render_sms(kind: SmsKind, variables: Mapping[str, Any]) -> str:
    """The text of an SMS of a kind, in which only `Code` is a variable.

    Raises `syntax.TemplateSyntaxError` for a configured text that is no template.
    """
    visible = _only(variables, message_types.SMS_VARIABLES)
    config = conf.current()
    text = config.mfa.phone_template if kind is SmsKind.FACTOR else config.sms.template
    return _compiled(text).render(visible, mode=gotemplate.Mode.TEXT)


def _only(variables: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name in names}
