"""Letters on their way out: composed once, then over SMTP or through the operator's Django e-mail back end."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import datetime
from email.charset import QP, Charset
from email.header import Header
from email.utils import format_datetime, formataddr
from typing import Any

from django.core import mail

from authsvc import conf
from authsvc.messaging import Email, EmailKind
from mailer.email import smtp
from mailer.errors import NotDelivered
from mailer.rendering import renderer

_CHARSET = Charset("utf-8")
_CHARSET.header_encoding = QP
_CHARSET.body_encoding = QP

# Everything that some reader takes for the end of a line, and what has no place in one.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
# Nothing that an address could end at, so that what is named is what is written to.
_ATOM = r"""[^\s\x00-\x20\x7f-\x9f\ud800-\udfff<>()\[\],:;@\\"]+"""
_ADDRESS = re.compile(f"{_ATOM}@{_ATOM}")
# Readers would decode the first, and the others cannot be folded.
_TO_BE_CODED = re.compile(r"=\?|[^ ]{900}| {70}")
_HEADER_NAME = re.compile(r"[!-9;-~]+")  # RFC 5322 §3.6.8
_STRUCTURE = frozenset({"content-type", "content-transfer-encoding", "mime-version"})

logger = logging.getLogger(__name__)


class Letter(mail.EmailMultiAlternatives):
    """A mail whose additional headers may have several values each, and whose subject is read as it was written."""

    header_values: Mapping[str, tuple[str, ...]] = {}

    def message(self, **options: Any) -> Any:
        built = super().message(**options)
        subject = str(self.subject)
        if _TO_BE_CODED.search(subject):
            built.replace_header("Subject", Header(subject, _CHARSET, header_name="Subject"))
        for name, values in self.header_values.items():
            del built[name]
            for value in values:
                built[name] = value
        return built


def send(message: Email, rendered: renderer.Rendered, *, at: datetime) -> str:
    """Hand one letter to the mail server, or to nobody when none is configured.

    Returns the gateway's id of it or its answer, empty when there is none. Raises NotDelivered, permanent when the
    recipient is not one bare address; a back end of the operator's choice raises what it likes.
    """
    config = conf.current()
    if not _ADDRESS.fullmatch(message.to):
        raise NotDelivered("the recipient is not an address", permanent=True)
    if not config.mailer.backend and not config.smtp.host:
        return ""
    letter = compose(message, rendered, at=at)
    if config.smtp.logging_enabled:
        fields = {"mail_type": str(message.kind), "mail_from": config.smtp.admin_email, "mail_to": message.to}
        logger.info("mail.send", extra={"event": "mail.send", **fields})
    if config.mailer.backend:
        return _through_backend(letter)
    return smtp.send(sender=letter.from_email, recipient=letter.to[0], content=_octets(letter))


def compose(message: Email, rendered: renderer.Rendered, *, at: datetime) -> Letter:
    """The letter with its headers. Its Message-ID is the message's own id, so that a second copy is known as one."""
    config = conf.current().smtp
    added = _added_headers(message.kind)
    given = {name.lower(): values[0] for name, values in added.items()}
    sender = formataddr((_one_line(config.sender_name or config.admin_email), config.admin_email), _CHARSET)
    domain = config.admin_email.rpartition("@")[2]
    letter = Letter(
        subject=given.get("subject", _one_line(rendered.subject).strip()),
        body=rendered.text,
        from_email=given.get("from", sender),
        to=[message.to],
        headers={
            "Message-ID": f"<{message.id}@{domain}>",
            "Date": format_datetime(at),
            **{name: ", ".join(values) for name, values in added.items()},
        },
    )
    letter.attach_alternative(rendered.html, "text/html")
    letter.header_values = added
    letter.encoding = _CHARSET
    return letter


def _added_headers(kind: EmailKind) -> dict[str, tuple[str, ...]]:
    """SMTP_HEADERS without what cannot be a header or would contradict the body."""
    added = {}
    for name, values in conf.current().smtp.headers.items():
        lines = tuple(_one_line(value.replace("$messageType", str(kind))) for value in values if value)
        if lines and _HEADER_NAME.fullmatch(name) and name.lower() not in _STRUCTURE:
            added[name] = lines
    return added


def _through_backend(letter: Letter) -> str:
    config = conf.current().mailer
    connection = mail.get_connection(config.backend, fail_silently=False, **config.backend_options)
    if not connection.send_messages([letter]):
        raise NotDelivered(f"{config.backend} did not take the message")
    # Anymail's back ends leave what the gateway said on the message.
    status = getattr(letter, "anymail_status", None)
    gateway_id = getattr(status, "message_id", None)
    return "" if gateway_id is None else str(gateway_id)


def _octets(letter: Letter) -> bytes:
    content: bytes = letter.message().as_bytes(linesep="\r\n")
    return content


def _one_line(text: str) -> str:
    return _CONTROL.sub("", text)
