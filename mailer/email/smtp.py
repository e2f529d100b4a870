"""Django's SMTP back end with the settings AUTH_SMTP_*, and with TLS wherever the server offers it (RFC 3207)."""

from __future__ import annotations

import contextlib
import io
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from email import policy
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from django.core import mail
from django.core.mail.backends import smtp
from django.utils.encoding import punycode

from authsvc import conf
from authsvc.messaging import DeliveryFailed
from authsvc.outgoing import connections

CONNECT_SECONDS = 10.0
"""Timeout for each reply until the login has ended."""
REPLY_SECONDS = 60.0
"""Timeout for each reply to the message itself, which servers scan before they answer."""
OPEN_SECONDS, MESSAGE_SECONDS = 30.0, 120.0
"""Timeouts for all replies until the login has ended, and for all further ones.

The others apply to each read: a server that sends single bytes would hold a worker, and all other jobs with it, for as
long as it likes.
"""
IMPLICIT_TLS_PORT = 465
_MAX_REPLY_BYTES = 1_048_576
"""Limit of all replies of a connection."""
_MECHANISMS = ("CRAM-MD5", "PLAIN", "LOGIN")
"""In the order of preference. The first one does not send the password (RFC 2195)."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_PERMANENT_REJECTION = 55
"""First digits of the codes for a permanent rejection of the message.

Codes that begin with 50 and 53 concern the client's commands (RFC 5321 §4.2.1, RFC 4954 §6).
"""
_TOO_LARGE = 552
"""Rejects the message also in the reply to MAIL, which announces its size (RFC 1870 §6.1)."""


class _Replies(io.RawIOBase):
    """The bytes that a server sends to a client until its deadline, up to the limit of the connection."""

    def __init__(self, sock: socket.socket, client: _Client) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._client = client
        self._bytes_left = _MAX_REPLY_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        timeout, left = self._sock.gettimeout(), self._client.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left if timeout is None else min(timeout, left))
        try:
            count = self._raw.readinto(buffer)
        finally:
            self._sock.settimeout(timeout)
        self._bytes_left -= count or 0
        if self._bytes_left < 0:
            raise OSError("the replies are too long")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Client(smtplib.SMTP):
    """A client with a deadline for replies, that keeps the server's reply to the last message."""

    reply = ""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.deadline = time.monotonic() + OPEN_SECONDS
        super().__init__(*args, **options)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect to the first address that answers. The addresses share the timeout; the library gives it to each."""
        deadline = time.monotonic() + timeout
        sock = connections.connect(connections.look_up(host, port, seconds=timeout), deadline=deadline)
        sock.settimeout(timeout)
        return sock

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            # The library would read from the socket itself.
            self.file = io.BufferedReader(_Replies(self.sock, self))
        return super().getreply()

    def data(self, content: Any) -> tuple[int, bytes]:
        code, reply = super().data(content)
        self.reply = _text(reply)
        return code, reply


class _TlsClient(_Client, smtplib.SMTP_SSL):
    """The same over TLS from the start."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self.context.wrap_socket(super()._get_socket(host, port, timeout), server_hostname=host)


class EmailBackend(smtp.EmailBackend):
    """Sets `smtp_reply` of a message to the server's reply.

    Raises DeliveryFailed with the server's text, permanent if the server does not accept this message or recipient.
    """

    connection: Any

    def __init__(self, **options: Any) -> None:
        config = conf.current().smtp
        super().__init__(host=config.host, port=config.port, use_ssl=config.port == IMPLICIT_TLS_PORT, **options)

    def open(self) -> bool:
        """Connect, encrypt and log in; return False if the connection is open already.

        Django would take the EHLO name from DNS, and log in before the connection is encrypted.
        """
        if self.connection:
            return False
        connect = partial(_TlsClient, context=self.ssl_context) if self.use_ssl else _Client
        name = urlsplit(conf.current().api.external_url).hostname
        self.connection = connect(self.host, self.port, local_hostname=name, timeout=CONNECT_SECONDS)
        try:
            self.connection.ehlo_or_helo_if_needed()
            if not self.use_ssl and self.connection.has_extn("starttls"):
                self.connection.starttls(context=self.ssl_context)
                self.connection.ehlo_or_helo_if_needed()
            _log_in(self.connection)
            self.connection.sock.settimeout(REPLY_SECONDS)
            self.connection.deadline = time.monotonic() + MESSAGE_SECONDS
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        # The server has accepted or rejected the message, so errors of QUIT do not matter.
        with contextlib.suppress(OSError):
            super().close()

    def send_messages(self, email_messages: Sequence[mail.EmailMessage]) -> int:
        with _delivery_errors():
            return super().send_messages(email_messages)

    def check(self) -> str:
        """Connect, encrypt, log in and quit; return a summary."""
        with _delivery_errors():
            self.open()
        parts = ["encrypted" if _is_encrypted(self.connection) else "not encrypted"]
        if conf.current().smtp.user:
            parts.append("logged in" if self.connection.has_extn("auth") else "no login required")
        self.close()
        return ", ".join(parts)

    def _send(self, email_message: Any) -> bool:
        """Send the message to its one recipient. Django would not send an international address as RFC 6531 asks."""
        # `email.utils.parseaddr` of recent Python versions refuses domain literals and several addresses.
        senders = policy.default.header_factory("From", email_message.from_email).addresses
        addresses = [_envelope(senders[0].addr_spec if senders else ""), _envelope(*email_message.recipients())]
        options = [] if "".join(addresses).isascii() else ["SMTPUTF8"]
        content = email_message.message().as_bytes(linesep="\r\n")
        self.connection.sendmail(*addresses, content, mail_options=options)
        email_message.smtp_reply = self.connection.reply
        return True


@contextlib.contextmanager
def _delivery_errors() -> Iterator[None]:
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        [(code, reply)] = error.recipients.values()
        raise DeliveryFailed(f"{code} {_text(reply)}", permanent=code // 10 == _PERMANENT_REJECTION) from error
    except smtplib.SMTPResponseException as error:
        is_of_message = isinstance(error, smtplib.SMTPDataError) or error.smtp_code == _TOO_LARGE
        is_permanent = is_of_message and error.smtp_code // 10 == _PERMANENT_REJECTION
        raise DeliveryFailed(f"{error.smtp_code} {_text(error.smtp_error)}", permanent=is_permanent) from error
    except (OSError, ValueError) as error:
        # Errors of the connection and of TLS; characters that SMTP commands cannot contain.
        raise DeliveryFailed(f"{type(error).__name__}: {error}") from error


def _log_in(client: smtplib.SMTP) -> None:
    """Log in if a user is configured and the server supports AUTH; the password leaves the machine encrypted only."""
    config = conf.current().smtp
    if not config.user or not client.has_extn("auth"):
        return
    offered = client.esmtp_features["auth"].upper().split()
    mechanism = next((name for name in _MECHANISMS if name in offered), "")
    if mechanism != _MECHANISMS[0] and not _is_encrypted(client) and config.host not in _LOCAL:
        raise DeliveryFailed("the server offers no encryption, so the password is not sent")
    # A wrong password is tried once, because providers lock accounts.
    client.esmtp_features["auth"] = mechanism
    client.login(config.user, config.password.reveal())


def _is_encrypted(client: smtplib.SMTP) -> bool:
    return isinstance(client.sock, ssl.SSLSocket)


def _envelope(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{punycode(domain)}"


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())
