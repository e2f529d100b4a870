"""Where a mail's text comes from: the subject and the body template of a kind, fetched or built in."""

from __future__ import annotations

import codecs
import functools
import logging
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

from authsvc import conf
from authsvc.messaging import EmailKind
from authsvc.outgoing import http
from mailer import gotemplate
from mailer.rendering import message_types

BUILT_IN = Path(__file__).resolve().parents[2] / "templates" / "mailer"
FETCH_TIMEOUT = timedelta(seconds=10)

_logger = logging.getLogger(__name__)


class TemplateUnusable(Exception):
    """A configured template cannot be had or is none; `event` is what the log calls that."""

    def __init__(self, event: str, problem: object) -> None:
        self.event = event
        super().__init__(str(problem))


@dataclass(frozen=True, slots=True)
class Origin:
    """What is configured for a kind: a subject, and the URL of a template; each may be empty."""

    subject: str
    url: str


@dataclass(frozen=True, slots=True)
class Source:
    """The templates of a kind, ready to be filled."""

    subject: gotemplate.Template
    html: gotemplate.Template
    text: gotemplate.Template | None
    """None: the plain text is to be made from the HTML."""


def origin(kind: EmailKind) -> Origin:
    key, config = message_types.EMAILS[kind].key, conf.current()
    place = config.mailer.templates.get(key, "")
    url = place if not place or place.startswith("http") else config.site.url + place
    return Origin(subject=config.mailer.subjects.get(key, ""), url=url)


def load(kind: EmailKind, origin: Origin) -> Source:
    """Fetch what `origin` names, or take the built-in body when it names none. Raises TemplateUnusable."""
    if not origin.url:
        return built_in(kind, origin)
    try:
        html = gotemplate.compile(_fetch(origin.url))
    except gotemplate.TemplateSyntaxError as problem:
        raise TemplateUnusable("templatemailer_template_body_parse_error", problem) from None
    return Source(subject=_subject(kind, origin), html=html, text=None)


def built_in(kind: EmailKind, origin: Origin) -> Source:
    """The built-in body with the subject of `origin`."""
    html, text = _built_in_body(message_types.EMAILS[kind].key)
    return Source(subject=_subject(kind, origin), html=html, text=text)


def _fetch(url: str) -> str:
    """The text of a template. Raises TemplateUnusable."""
    event, most = "templatemailer_template_body_http_error", conf.current().mailer.template_max_size
    try:
        reply = http.send("GET", url, timeout=FETCH_TIMEOUT, max_bytes=most, truncate=True, follow_redirects=True)
    except http.Unreachable as problem:
        raise TemplateUnusable(event, problem) from None
    if reply.status != HTTPStatus.OK:
        raise TemplateUnusable(event, f"status {reply.status}")
    # A character that the limit has cut in two is left out.
    return codecs.getincrementaldecoder("utf-8-sig")("replace").decode(reply.body)


@functools.cache
def _built_in_body(key: str) -> tuple[gotemplate.Template, gotemplate.Template]:
    return _built_in(key, "html"), _built_in(key, "txt")


def _built_in(key: str, extension: str) -> gotemplate.Template:
    """A kind's file only defines the parts that the shared frame puts together."""
    parts = (BUILT_IN / f"{name}.{extension}" for name in (key, "frame"))
    return gotemplate.compile("".join(part.read_text(encoding="utf-8") for part in parts))


def _subject(kind: EmailKind, origin: Origin) -> gotemplate.Template:
    if origin.subject:
        try:
            return gotemplate.compile(origin.subject)
        except gotemplate.TemplateSyntaxError as problem:
            _logger.error(
                "the configured subject is not a template, the default is used: %s",
                problem,
                extra={"event": "templatemailer_template_subject_parse_error", "mail_type": kind.value},
            )
    return gotemplate.compile(message_types.EMAILS[kind].subject)
