"""Sends one email over one SMTP connection (RFC 5321), encrypted if the server supports it.

Django's SMTP back end drops the reply of the server, cannot use TLS only where it is offered, and takes its EHLO name
from DNS. `AUTH_MAILER_BACKEND` selects a back end of Django or Anymail instead.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Callable, Iterator
from email.utils import parseaddr
from urllib.parse import urlsplit

from django.utils.encoding import punycode

from authsvc import conf
from authsvc.messaging import DeliveryFailed

CONNECT_SECONDS = 10.0
"""Timeout for connection, greeting, TLS and login."""
REPLY_SECONDS = 60.0
"""Timeout for the message itself, which servers scan before they answer."""
IMPLICIT_TLS_PORT = 465
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_PERMANENT_REJECTION = 55
"""First digits of the codes for a permanent rejection of the message.

Codes that begin with 50 and 53 concern the client's commands (RFC 5321 §4.2.1, RFC 4954 §6).
"""


class _MessageRejected(smtplib.SMTPResponseException):
    """The server rejected the recipient or the message."""


def send(*, sender: str, recipient: str, content: bytes) -> str:
    """Send `content`, headers and body with CRLF line ends, and return the server's last reply.

    `sender` may be an address with a name. Raises DeliveryFailed with the server's text, permanent if the server
    rejects the recipient or the message for good.
    """
    try:
        origin, target = _envelope(parseaddr(sender)[1]), _envelope(recipient)
        with _session() as server:
            options = [] if f"{origin}{target}".isascii() else ["SMTPUTF8"]  # RFC 6531
            _expect(250, *server.mail(origin, options))
            _expect(250, *server.rcpt(target), also=251, error_class=_MessageRejected)
            reply = _expect(250, *server.data(content), error_class=_MessageRejected)
            with contextlib.suppress(OSError):
                # The server has accepted the message, so errors of QUIT do not matter.
                server.quit()
            return reply
    except smtplib.SMTPResponseException as error:
        is_permanent = isinstance(error, _MessageRejected) and error.smtp_code // 10 == _PERMANENT_REJECTION
        raise DeliveryFailed(f"{error.smtp_code} {_text(error.smtp_error)}", permanent=is_permanent) from error
    except (OSError, ValueError) as error:
        # Errors of the connection and of TLS; characters that SMTP commands cannot contain.
        raise DeliveryFailed(f"{type(error).__name__}: {error}") from error


def check_connection() -> str:
    """Connect, encrypt, log in and quit; returns a summary. Raises DeliveryFailed with the server's text."""
    try:
        with _session() as server:
            parts = ["encrypted" if isinstance(server.sock, ssl.SSLSocket) else "not encrypted"]
            if conf.current().smtp.user:
                parts.append("logged in" if server.has_extn("auth") else "no login required")
            with contextlib.suppress(OSError):
                server.quit()
            return ", ".join(parts)
    except smtplib.SMTPResponseException as error:
        raise DeliveryFailed(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, ValueError) as error:
        raise DeliveryFailed(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _session() -> Iterator[smtplib.SMTP]:
    """A greeted, encrypted and logged-in connection."""
    config = conf.current().smtp
    name = urlsplit(conf.current().api.external_url).hostname
    encrypted = config.port == IMPLICIT_TLS_PORT
    if encrypted:
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            config.host,
            config.port,
            local_hostname=name,
            timeout=CONNECT_SECONDS,
            context=ssl.create_default_context(),
        )
    else:
        server = smtplib.SMTP(config.host, config.port, local_hostname=name, timeout=CONNECT_SECONDS)
    try:
        server.ehlo_or_helo_if_needed()
        if not encrypted and server.has_extn("starttls"):
            server.starttls(context=ssl.create_default_context())
            server.ehlo_or_helo_if_needed()
            encrypted = True
        _log_in(server, encrypted=encrypted)
        if server.sock is not None:
            server.sock.settimeout(REPLY_SECONDS)
        yield server
    finally:
        server.close()


def _log_in(server: smtplib.SMTP, *, encrypted: bool) -> None:
    """Log in if a user is configured and the server supports AUTH."""
    config = conf.current().smtp
    if not config.user or not server.has_extn("auth"):
        return
    offered = server.esmtp_features["auth"].upper().split()
    mechanism: str
    authenticate: Callable[..., str]
    if "CRAM-MD5" in offered:
        mechanism, authenticate = "CRAM-MD5", server.auth_cram_md5
    elif "LOGIN" in offered and "PLAIN" not in offered and (encrypted or config.host in _LOCAL):
        mechanism, authenticate = "LOGIN", server.auth_login
    elif encrypted or config.host in _LOCAL:
        mechanism, authenticate = "PLAIN", server.auth_plain
    else:
        raise DeliveryFailed("the server offers no encryption, so the password is not sent")
    server.user, server.password = config.user, config.password.reveal()
    server.auth(mechanism, authenticate)


def _envelope(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{punycode(domain)}"


def _expect(
    code: int,
    reply_code: int,
    text: bytes,
    *,
    also: int = 0,
    error_class: type[smtplib.SMTPResponseException] = smtplib.SMTPResponseException,
) -> str:
    if reply_code not in (code, also):
        raise error_class(reply_code, text)
    return _text(text)


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())
