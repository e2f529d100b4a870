"""Renders messages: the configured or default subject and the body of a mail, the text of an SMS."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from authsvc.core.messaging import EmailKind, SmsKind
from mailer import catalogue, syntax

BUILT_IN = Path(__file__).resolve().parent.parent / "templates" / "mailer"

_logger = logging.getLogger(__name__)
_compiled = functools.lru_cache(maxsize=128)(syntax.compile)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail ready for delivery: a subject of one line, the HTML body and its plain-text alternative."""

    subject: str = field(repr=False)
    html: str = field(repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Body:
    html: syntax.Template
    text: syntax.Template


def render(kind: EmailKind, variables: Mapping[str, Any]) -> Rendered:
    """The mail of a kind with its variables, of which only those of the kind are seen.

    Raises `syntax.TemplateRenderError` when the values make the text grow beyond its bounds.
    """
    entry = catalogue.EMAILS[kind]
    visible = _only(variables, entry.variables)
    body = source(kind)
    subject = _subject(kind).render(visible, mode=syntax.Mode.TEXT)
    return Rendered(
        subject="".join(subject.splitlines()),  # a line break would begin another header
        html=body.html.render(visible, mode=syntax.Mode.HTML),
        text=body.text.render(visible, mode=syntax.Mode.TEXT),
    )


def render_sms(kind: SmsKind, variables: Mapping[str, Any]) -> str:
    """The text of an SMS, in which only `Code` is a variable."""
    entry = catalogue.SMS[kind]
    return _compiled(entry.text).render(_only(variables, entry.variables), mode=syntax.Mode.TEXT)


@functools.cache
def source(kind: EmailKind) -> Body:
    """The body of a kind: the built-in one, kept once compiled."""
    key = catalogue.EMAILS[kind].key
    return Body(html=_built_in(key, "html"), text=_built_in(key, "txt"))


def _built_in(key: str, extension: str) -> syntax.Template:
    """A kind's file only defines the parts that the shared frame puts together."""
    parts = (BUILT_IN / f"{name}.{extension}" for name in (key, "frame"))
    return syntax.compile("".join(part.read_text(encoding="utf-8") for part in parts))


def _subject(kind: EmailKind) -> syntax.Template:
    entry = catalogue.EMAILS[kind]
    configured = settings.AUTH.mailer.subjects.get(entry.key)
    if configured:
        try:
            return _compiled(configured)
        except syntax.TemplateSyntaxError as problem:
            _logger.error(
                "the configured subject is not a template, the default is used: %s",
                problem,
                extra={"event": "templatemailer_template_subject_parse_error", "mail_type": kind.value},
            )
    return _compiled(entry.subject)


def _only(variables: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name in names}
