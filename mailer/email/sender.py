"""Composes emails and sends them through a Django email back end: the configured one, or SMTP."""

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
from authsvc.messaging import DeliveryFailed, Email, EmailType
from mailer.email.smtp import EmailBackend
from mailer.rendering import renderer

_CHARSET = Charset("utf-8")
_CHARSET.header_encoding = QP
_CHARSET.body_encoding = QP

# Control characters and everything that some reader treats as a line end.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
# Excludes all characters at which a parser could end an address.
_ATOM = r"""[^\s\x00-\x20\x7f-\x9f\ud800-\udfff<>()\[\],:;@\\"]+"""
_ADDRESS = re.compile(f"{_ATOM}@{_ATOM}")
# Readers would decode the first one, and the others cannot be folded.
_NEEDS_ENCODING = re.compile(r"=\?|[^ ]{900}| {70}")
_HEADER_NAME = re.compile(r"[!-9;-~]+")  # RFC 5322 §3.6.8
_STRUCTURE = frozenset({"content-type", "content-transfer-encoding", "mime-version"})

logger = logging.getLogger(__name__)


class OutgoingEmail(mail.EmailMultiAlternatives):
    """An email with repeatable additional headers and a subject that readers do not reinterpret."""

    header_values: Mapping[str, tuple[str, ...]] = {}
    smtp_reply = ""

    def message(self, **options: Any) -> Any:
        built = super().message(**options)
        subject = str(self.subject)
        if _NEEDS_ENCODING.search(subject):
            built.replace_header("Subject", Header(subject, _CHARSET, header_name="Subject"))
        for name, values in self.header_values.items():
            del built[name]
            for value in values:
                built[name] = value
        return built


def send(message: Email, rendered: renderer.Rendered, *, at: datetime) -> str:
    """Send one email; does nothing if no mail server is configured.

    Returns the gateway's id of the message or its response, or an empty string. Raises DeliveryFailed, permanent if the
    recipient is not a bare address. A configured back end may raise any error.
    """
    config = conf.current()
    if not _ADDRESS.fullmatch(message.to):
        raise DeliveryFailed("the recipient is not an address", permanent=True)
    if not config.mailer.backend and not config.smtp.host:
        return ""
    outgoing = compose(message, rendered, at=at)
    if config.smtp.logging_enabled:
        fields = {"mail_type": str(message.type), "mail_from": config.smtp.admin_email, "mail_to": message.to}
        logger.info("mail.send", extra={"event": "mail.send", **fields})
    return _deliver(outgoing)


def compose(message: Email, rendered: renderer.Rendered, *, at: datetime) -> OutgoingEmail:
    """Build the email. Its Message-ID is the message's id, so that mail readers recognize a second copy."""
    config = conf.current().smtp
    added = _added_headers(message.type)
    overrides = {name.lower(): values[0] for name, values in added.items()}
    sender = formataddr((_one_line(config.sender_name or config.admin_email), config.admin_email), _CHARSET)
    domain = config.admin_email.rpartition("@")[2]
    outgoing = OutgoingEmail(
        subject=overrides.get("subject", _one_line(rendered.subject).strip()),
        body=rendered.text,
        from_email=overrides.get("from", sender),
        to=[message.to],
        headers={
            "Message-ID": f"<{message.id}@{domain}>",
            "Date": format_datetime(at),
            **{name: ", ".join(values) for name, values in added.items()},
        },
    )
    outgoing.attach_alternative(rendered.html, "text/html")
    outgoing.header_values = added
    outgoing.encoding = _CHARSET
    return outgoing


def _added_headers(type: EmailType) -> dict[str, tuple[str, ...]]:
    """SMTP_HEADERS without invalid headers and those that would contradict the body."""
    added = {}
    for name, values in conf.current().smtp.headers.items():
        lines = tuple(_one_line(value.replace("$messageType", str(type))) for value in values if value)
        if lines and _HEADER_NAME.fullmatch(name) and name.lower() not in _STRUCTURE:
            added[name] = lines
    return added


def _deliver(outgoing: OutgoingEmail) -> str:
    config = conf.current().mailer
    if config.backend:
        connection = mail.get_connection(config.backend, fail_silently=False, **config.backend_options)
    else:
        connection = EmailBackend()
    if not connection.send_messages([outgoing]):
        raise DeliveryFailed(f"{config.backend} did not accept the message")
    # Anymail's back ends store the gateway's response on the message.
    gateway_id = getattr(getattr(outgoing, "anymail_status", None), "message_id", None)
    return outgoing.smtp_reply if gateway_id is None else str(gateway_id)


def _one_line(text: str) -> str:
    return _CONTROL.sub("", text)
