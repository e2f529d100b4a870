"""An SMTP server on loopback, with optional TLS, login and configurable failures."""

from __future__ import annotations

import asyncio
import datetime as dt
import email
import hmac
import ipaddress
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import MISSING, SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

USER, PASSWORD = "postmaster", "correct horse"
MECHANISMS = frozenset({"CRAM-MD5", "LOGIN", "PLAIN"})

DROP = "close the connection"
"""As a response: none; the connection is closed at once."""
HANG = "send nothing"
"""As a response: none; the connection stays open until this setting changes, then is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One received email and its connection details."""

    sender: str
    recipients: list[str]
    content: bytes
    hello: str
    """The host name that the client sent in EHLO."""
    encrypted: bool
    mechanism: str
    """The login used, or empty."""

    @property
    def message(self) -> EmailMessage:
        return email.message_from_bytes(self.content, policy=default)


class FakeSmtp:
    """Runs during its `with` block, on a free port unless `port` is passed.

    `received` holds accepted emails, `transmitted` also those that were rejected after transmission. `replies` maps a
    stage to the response sent instead of success, including DROP and HANG: `CONNECT`, `MAIL`, `RCPT`, `BODY` (before
    the content; DROP reads one line of it) and `DATA` (after the content). `rejections` maps a recipient to the
    response to its `RCPT`. `delay` is the time in seconds before the response to EHLO; while `hold` is true, EHLO gets
    no response. All can be changed while it runs. `hanging` counts the connections that HANG keeps open, `held` those
    that `hold` delays.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        starttls: ssl.SSLContext | None = None,
        implicit_tls: ssl.SSLContext | None = None,
        mechanisms: Iterable[str] = (),
    ) -> None:
        self.host = host
        self.port = port
        self.received: list[Received] = []
        self.transmitted: list[Received] = []
        self.replies: dict[str, str] = {}
        self.rejections: dict[str, str] = {}
        self.delay = 0.0
        self.hold = False
        self.hanging = 0
        self.held = 0
        self._options: dict[str, Any] = {
            "server_hostname": "mail.test",
            "auth_require_tls": False,
            "auth_exclude_mechanism": MECHANISMS - set(mechanisms),
            "authenticator": _check_password,
            "tls_context": starttls,
        }
        self._implicit_tls = implicit_tls
        self._controller: _OnFreePort | None = None

    def start(self) -> None:
        """Listen; after `stop` on the same port, with the received emails kept."""
        self._controller = _OnFreePort(
            self, hostname=self.host, port=self.port, ssl_context=self._implicit_tls, **self._options
        )
        self._controller.start()
        self.port = self._controller.port

    def stop(self) -> None:
        """Stop listening, so that connections fail."""
        if self._controller is not None:
            self._controller.stop()
            self._controller = None

    def __enter__(self) -> FakeSmtp:
        self.received.clear()
        self.transmitted.clear()
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def message_ids(self) -> dict[str, list[str]]:
        """Recipient → the Message-IDs of received emails, one per copy."""
        by_recipient: dict[str, list[str]] = {}
        for received in list(self.received):
            for recipient in received.recipients:
                by_recipient.setdefault(recipient, []).append(received.message["Message-ID"])
        return by_recipient

    async def fault(self, moment: str, server: SMTP) -> str | None:
        """The response to send instead of success. For HANG it never returns; closing the connection cancels it."""
        if self.replies.get(moment) == HANG:
            self.hanging += 1
            try:
                while self.replies.get(moment) == HANG:  # noqa: ASYNC110  (another thread changes it)
                    await asyncio.sleep(0.02)
            finally:
                self.hanging -= 1
            await _drop(server)
        if self.replies.get(moment) == DROP:
            await _drop(server)
        return self.replies.get(moment)


async def _drop(server: SMTP) -> None:
    if server.transport is not None:
        server.transport.close()
    await asyncio.Event().wait()


class _OnFreePort(Controller):
    def __init__(self, fake: FakeSmtp, **options: Any) -> None:
        super().__init__(_Handler(fake), **options)
        self._fake = fake

    def factory(self) -> SMTP:
        return _Server(self._fake, self.handler, **self.SMTP_kwargs)

    async def _create_server(self) -> asyncio.AbstractServer:
        server: Any = await super()._create_server()
        self.port = server.sockets[0].getsockname()[1]
        return server  # type: ignore[no-any-return]


class _Server(SMTP):
    """Implements failures at stages without a handler hook."""

    def __init__(self, fake: FakeSmtp, handler: Any, **options: Any) -> None:
        self._fake = fake
        super().__init__(handler, **options)

    async def _handle_client(self) -> None:
        rejection = await self._fake.fault("CONNECT", self)
        if rejection is None:
            await super()._handle_client()
        else:
            await self.push(rejection)
            self._writer.close()

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802  (names are aiosmtpd's)
        if self._fake.replies.get("BODY") == DROP:
            await self.push("354 go ahead")
            await self._reader.readline()
        rejection = await self._fake.fault("BODY", self)
        if rejection is None:
            await super().smtp_DATA(arg)
        else:
            await self.push(rejection)


class _Handler:
    def __init__(self, fake: FakeSmtp) -> None:
        self._fake = fake

    async def handle_EHLO(  # noqa: N802
        self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        await asyncio.sleep(self._fake.delay)
        self._fake.held += 1
        try:
            while self._fake.hold:  # noqa: ASYNC110  (another thread changes it)
                await asyncio.sleep(0.02)
        finally:
            self._fake.held -= 1
        session.host_name = hostname
        return [line for line in responses if line.strip() != "250-AUTH"]

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await self._fake.fault("MAIL", server) or "250 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        rejection = await self._fake.fault("RCPT", server) or self._fake.rejections.get(address)
        if rejection is None:
            envelope.rcpt_tos.append(address)
        return rejection or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.original_content
        assert content is not None
        assert envelope.mail_from is not None
        assert server.transport is not None
        received = Received(
            sender=envelope.mail_from,
            recipients=list(envelope.rcpt_tos),
            content=content,
            hello=session.host_name or "",
            encrypted=server.transport.get_extra_info("ssl_object") is not None,
            mechanism=getattr(session, "auth_data", None) or "",
        )
        self._fake.transmitted.append(received)
        rejection = await self._fake.fault("DATA", server)
        if rejection is not None:
            return rejection
        self._fake.received.append(received)
        return f"250 2.0.0 Ok: queued as {len(self._fake.received)}"

    async def auth_CRAM__MD5(self, server: SMTP, _arguments: list[str]) -> AuthResult:  # noqa: N802
        """RFC 2195."""
        challenge = f"<{secrets.token_hex(8)}@mail.test>".encode()
        response = await server.challenge_auth(challenge)
        if response is MISSING:
            return AuthResult(success=False)
        expected = f"{USER} {hmac.new(PASSWORD.encode(), challenge, 'md5').hexdigest()}"
        return AuthResult(success=response == expected.encode(), auth_data="CRAM-MD5", handled=False)


def _check_password(
    _server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, credentials: LoginPassword
) -> AuthResult:
    is_correct = (credentials.login, credentials.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_correct, auth_data=mechanism, handled=False)


def server_tls(folder: Path, *, host: str) -> tuple[ssl.SSLContext, Path]:
    """The TLS context of a server at `host` (name or address), and the CA file that verifies it."""
    now = dt.datetime.now(dt.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    def begin(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(authority).public_key(public)
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        )

    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    root = (
        begin(authority, authority_key.public_key())
        .add_extension(identifier, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage),
            critical=True,
        )
        .sign(authority_key, SHA256())
    )
    try:
        name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        name = x509.DNSName(host)
    leaf = (
        begin(x509.Name([]), key.public_key())
        .add_extension(x509.SubjectAlternativeName([name]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, SHA256())
    )
    chain, trusted = folder / f"{host}.pem", folder / f"{host}-authority.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain.write_bytes(private + leaf.public_bytes(Encoding.PEM))
    trusted.write_bytes(root.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context, trusted
