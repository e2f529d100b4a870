"""Loads the templates of an email type: from the configured URL, or the built-in ones."""

from __future__ import annotations

import codecs
import functools
import logging
import re
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

from authsvc import conf, languages
from authsvc.messaging import EmailType
from authsvc.outgoing import http
from mailer import gotemplate
from mailer.rendering import message_types

BUILT_IN = Path(__file__).resolve().parents[2] / "templates" / "mailer"
FETCH_TIMEOUT = timedelta(seconds=10)

_TRANSLATABLE = re.compile(r'\{% translate "(?P<text>[^"]*)" %\}')
"""Django's tag, which `makemessages` finds. The rest of the file is Go's template language."""
_EMPHASIS = re.compile(r"</?strong>")

_logger = logging.getLogger(__name__)


class TemplateLoadError(Exception):
    """A configured template cannot be fetched or parsed. `event` is the event name in the log."""

    def __init__(self, event: str, problem: object) -> None:
        self.event = event
        super().__init__(str(problem))


@dataclass(frozen=True, slots=True)
class TemplateConfig:
    """The configured subject and template URL of an email type; each may be empty."""

    subject: str
    url: str
    language: str
    """Of the subject and of the built-in body."""


@dataclass(frozen=True, slots=True)
class MessageTemplates:
    """The compiled templates of an email type."""

    subject: gotemplate.Template
    html: gotemplate.Template
    text: gotemplate.Template | None
    """None: the plain text is derived from the HTML."""
    language: str


def template_config(type: EmailType, language: str = conf.ENGLISH) -> TemplateConfig:
    """The settings of an email type; a path of a template is below AUTH_SITE_URL."""
    key, config = message_types.EMAIL_DEFINITIONS[type].key, conf.current()
    location = config.mailer.templates.get(key, "")
    url = location if not location or location.startswith("http") else config.site.url + location
    return TemplateConfig(subject=config.mailer.subjects.get(key, ""), url=url, language=language)


def load_templates(type: EmailType, config: TemplateConfig) -> MessageTemplates:
    """Fetch the configured template, or return the built-in ones if none is configured. Raises TemplateLoadError."""
    if not config.url:
        return built_in_templates(type, config)
    try:
        html = gotemplate.compile(_fetch(config.url))
    except gotemplate.TemplateSyntaxError as error:
        raise TemplateLoadError("templatemailer_template_body_parse_error", error) from None
    return MessageTemplates(subject=_subject(type, config), html=html, text=None, language=config.language)


def built_in_templates(type: EmailType, config: TemplateConfig) -> MessageTemplates:
    """The built-in body with the configured subject."""
    html, text = _built_in_body(message_types.EMAIL_DEFINITIONS[type].key, config.language)
    return MessageTemplates(subject=_subject(type, config), html=html, text=text, language=config.language)


def _fetch(url: str) -> str:
    """Fetch the text of a template. Raises TemplateLoadError."""
    event, max_bytes = "templatemailer_template_body_http_error", conf.current().mailer.template_max_size
    try:
        response = http.send(
            "GET", url, timeout=FETCH_TIMEOUT, max_bytes=max_bytes, truncate=True, follow_redirects=True
        )
    except http.Unreachable as error:
        raise TemplateLoadError(event, error) from None
    if response.status != HTTPStatus.OK:
        raise TemplateLoadError(event, f"status {response.status}")
    # The incremental decoder drops a character that the size limit has split.
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(response.body)
    if not text.strip():
        raise TemplateLoadError(event, "the template is empty")
    return text


@functools.cache
def _built_in_body(key: str, language: str) -> tuple[gotemplate.Template, gotemplate.Template]:
    html = _built_in(f"{key}.html", "frame.html", language)
    # Both bodies have the same texts, so that each is translated once; only the HTML has emphasis.
    text = _built_in(f"{key}.txt", "frame.txt", language, emphasis="")
    return html, text


def _built_in(name: str, frame: str, language: str, *, emphasis: str = r"\g<0>") -> gotemplate.Template:
    """The file of a type defines only the blocks that the shared frame includes."""
    source = "".join((BUILT_IN / file).read_text(encoding="utf-8") for file in (name, frame))
    translated = _TRANSLATABLE.sub(
        lambda match: _EMPHASIS.sub(emphasis, languages.translate(match["text"], language)), source
    )
    return gotemplate.compile(translated)


def _subject(type: EmailType, config: TemplateConfig) -> gotemplate.Template:
    if config.subject:
        try:
            return gotemplate.compile(languages.translate(config.subject, config.language))
        except gotemplate.TemplateSyntaxError as error:
            _logger.error(
                "configured subject is not a valid template, using the default: %s",
                error,
                extra={"event": "templatemailer_template_subject_parse_error", "mail_type": type.value},
            )
    return gotemplate.compile(languages.translate(message_types.EMAIL_DEFINITIONS[type].subject, config.language))
