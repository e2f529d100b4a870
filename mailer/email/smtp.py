"""One letter over one SMTP connection (RFC 5321), encrypted wherever the server can."""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Callable, Iterator
from email.utils import parseaddr
from urllib.parse import urlsplit

from django.utils.encoding import punycode

from authsvc import conf
from mailer.errors import NotDelivered

CONNECT_SECONDS = 10.0
"""For connecting, greeting, encryption and login."""
REPLY_SECONDS = 60.0
"""For the letter itself: servers look into it before they answer."""
IMPLICIT_TLS_PORT = 465
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_REFUSED_FOR_GOOD = 55
"""How a code begins that refuses the mail for good.

50 and 53 begin those about our way of asking (RFC 5321 §4.2.1, RFC 4954 §6).
"""


class _LetterRefused(smtplib.SMTPResponseException):
    """The server said no to the recipient or to the letter, not to us."""


def send(*, sender: str, recipient: str, content: bytes) -> str:
    """Deliver `content`, headers and body with CRLF line ends, and return the server's last answer.

    `sender` may be an address with a name. Raises NotDelivered with the server's words, permanent when it will not have
    this recipient or this letter.
    """
    try:
        origin, target = _envelope(parseaddr(sender)[1]), _envelope(recipient)
        with _session() as server:
            options = [] if f"{origin}{target}".isascii() else ["SMTPUTF8"]  # RFC 6531
            _expect(250, *server.mail(origin, options))
            _expect(250, *server.rcpt(target), also=251, refusal=_LetterRefused)
            answer = _expect(250, *server.data(content), refusal=_LetterRefused)
            with contextlib.suppress(OSError):
                # The letter is taken; how the server says good-bye changes nothing.
                server.quit()
            return answer
    except smtplib.SMTPResponseException as error:
        is_final = isinstance(error, _LetterRefused) and error.smtp_code // 10 == _REFUSED_FOR_GOOD
        raise NotDelivered(f"{error.smtp_code} {_text(error.smtp_error)}", permanent=is_final) from error
    except (OSError, ValueError) as error:
        # Connections and TLS; characters that a command cannot carry.
        raise NotDelivered(f"{type(error).__name__}: {error}") from error


def try_out() -> str:
    """Greet the server, encrypt, log in and say good-bye; what came of it. Raises NotDelivered with its words."""
    try:
        with _session() as server:
            parts = ["encrypted" if isinstance(server.sock, ssl.SSLSocket) else "not encrypted"]
            if conf.current().smtp.user:
                parts.append("logged in" if server.has_extn("auth") else "it wants no login")
            with contextlib.suppress(OSError):
                server.quit()
            return ", ".join(parts)
    except smtplib.SMTPResponseException as error:
        raise NotDelivered(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, ValueError) as error:
        raise NotDelivered(f"{type(error).__name__}: {error}") from error


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
    """Log in when there is a user and the server wants one at all."""
    config = conf.current().smtp
    if not config.user or not server.has_extn("auth"):
        return
    offered = server.esmtp_features["auth"].upper().split()
    mechanism: str
    answer: Callable[..., str]
    if "CRAM-MD5" in offered:
        mechanism, answer = "CRAM-MD5", server.auth_cram_md5
    elif "LOGIN" in offered and "PLAIN" not in offered and (encrypted or config.host in _LOCAL):
        mechanism, answer = "LOGIN", server.auth_login
    elif encrypted or config.host in _LOCAL:
        mechanism, answer = "PLAIN", server.auth_plain
    else:
        raise NotDelivered("the server offers no encryption, so the password is not sent")
    server.user, server.password = config.user, config.password.reveal()
    server.auth(mechanism, answer)


def _envelope(address: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}@{punycode(domain)}"


def _expect(
    code: int,
    answered: int,
    text: bytes,
    *,
    also: int = 0,
    refusal: type[smtplib.SMTPResponseException] = smtplib.SMTPResponseException,
) -> str:
    if answered not in (code, also):
        raise refusal(answered, text)
    return _text(text)


def _text(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return " ".join(text.split())
