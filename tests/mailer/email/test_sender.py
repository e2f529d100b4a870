"""The bytes that a real SMTP server receives: headers, encryption, login, and error messages."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core import mail

from authsvc.conf import Secret
from authsvc.messaging import DeliveryFailed, Email, EmailType
from mailer.email import sender, smtp
from mailer.rendering.renderer import Rendered
from tests import ports
from tests.authsvc.conf.variables import load
from tests.conftest import ChangeConfig
from tests.fakes.smtp import DROP, HANG, PASSWORD, USER, FakeSmtp, Received, server_tls

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MESSAGE = Email(
    type=EmailType.CONFIRMATION,
    to="ada@example.com",
    variables={},
    id=UUID("11111111-2222-4333-8444-555555555555"),
)
RENDERED = Rendered(
    subject="Confirm Your Signup", html='<p>Hallo – <a href="https://a/?b&amp;c">x</a></p>', text="Hallo –"
)


def use(change: ChangeConfig, server: FakeSmtp, **smtp_settings: Any) -> None:
    change(
        smtp={"host": server.host, "port": server.port, "admin_email": "noreply@example.com", **smtp_settings},
        api={"external_url": "https://auth.example.com:8443/auth/v1"},
    )


def deliver(
    change: ChangeConfig, *, message: Email = MESSAGE, rendered: Rendered = RENDERED, **smtp_settings: Any
) -> Received:
    with FakeSmtp() as server:
        use(change, server, **smtp_settings)
        sender.send(message, rendered, at=NOW)
        return server.received[0]


def test_an_email_arrives_with_both_bodies_and_all_headers(auth_config: ChangeConfig) -> None:
    received = deliver(auth_config)
    message = received.message
    assert (received.sender, received.recipients) == ("noreply@example.com", ["ada@example.com"])
    assert received.hello == "auth.example.com"
    assert message["From"] == '"noreply@example.com" <noreply@example.com>'
    assert message["To"] == "ada@example.com"
    assert message["Subject"] == "Confirm Your Signup"
    assert message["Message-ID"] == "<11111111-2222-4333-8444-555555555555@example.com>"
    assert message["MIME-Version"] == "1.0"
    assert b"\r\nDate: Fri, 02 Jan 2026 03:04:05 +0000\r\n" in received.content
    assert message.get_content_type() == "multipart/alternative"
    parts = [(part.get_content_type(), part["Content-Transfer-Encoding"]) for part in message.iter_parts()]
    assert parts == [("text/plain", "quoted-printable"), ("text/html", "quoted-printable")]
    plain, html = (part.get_content().strip() for part in message.iter_parts())
    assert (plain, html) == (RENDERED.text, RENDERED.html)


@pytest.mark.parametrize("address", ["noreply@example.com ", " noreply@example.com", "noreply@[192.0.2.1]"])
def test_senders_that_the_settings_permit_are_delivered(auth_config: ChangeConfig, address: str) -> None:
    config = load(AUTH_SMTP_HOST="mail", AUTH_SMTP_PORT="25", AUTH_SMTP_ADMIN_EMAIL=address)
    assert config.smtp.admin_email == address
    assert deliver(auth_config, admin_email=address).sender == address.strip()


def test_options_without_a_backend_have_no_effect(auth_config: ChangeConfig) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        auth_config(mailer={"backend_options": {"host": "mail.example.com", "unknown": 1}})
        assert sender.send(MESSAGE, RENDERED, at=NOW) == "2.0.0 Ok: queued as 1"


def test_the_reply_of_the_server_is_returned(auth_config: ChangeConfig) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        assert sender.send(MESSAGE, RENDERED, at=NOW) == "2.0.0 Ok: queued as 1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", '"noreply@example.com" <noreply@example.com>'),
        ("Acme, Inc.", '"Acme, Inc." <noreply@example.com>'),
        ('Say "hi" \\o/', r'"Say \"hi\" \\o/" <noreply@example.com>'),
        ("Müller", "=?utf-8?q?M=C3=BCller?= <noreply@example.com>"),
    ],
)
def test_the_sender_has_the_configured_name(auth_config: ChangeConfig, name: str, expected: str) -> None:
    assert f"\r\nFrom: {expected}\r\n".encode() in deliver(auth_config, sender_name=name).content


def test_a_non_ascii_subject_is_quoted_printable(auth_config: ChangeConfig) -> None:
    received = deliver(auth_config, rendered=Rendered(subject="Bestätigen", html="<p>x</p>", text="x"))
    assert b"\r\nSubject: =?utf-8?q?Best=C3=A4tigen?=\r\n" in received.content


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\x0b", "\x0c", "\x85", "\u2028"])
def test_values_cannot_inject_headers(auth_config: ChangeConfig, end: str) -> None:
    received = deliver(
        auth_config,
        rendered=Rendered(subject=f"Hi{end}Bcc: eve@example.com", html="<p>x</p>", text="x"),
        sender_name=f"Acme{end}Bcc: eve@example.com",
        headers={"X-Tag": (f"a{end}Bcc: eve@example.com",), f"X-Bad{end}Bcc": ("eve@example.com",)},
    )
    assert received.recipients == ["ada@example.com"]
    assert received.message["Bcc"] is None
    assert received.message["Subject"] == "HiBcc: eve@example.com"


@pytest.mark.parametrize(
    "to",
    [
        "ada@example.com\r\nRCPT TO:<eve@example.com>",
        "ada@exam\nple.com",
        "Ada <eve@example.com>",
        "eve@example.com, ada@example.com",
        "ada",
        "",
    ],
)
def test_a_recipient_that_is_not_one_bare_address_fails_permanently(auth_config: ChangeConfig, to: str) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        with pytest.raises(DeliveryFailed, match="not an address") as failure:
            sender.send(Email(type=EmailType.INVITE, to=to, variables={}), RENDERED, at=NOW)
        assert failure.value.permanent
        assert server.received == []


@pytest.mark.parametrize(
    "subject",
    ["=?utf-8?q?a=0D=0ABcc:_eve=40example.com?=", "x" * 2_000, f"a{' ' * 2_000}b", "漢" * 700],
    ids=["what a reader would decode", "no place to fold", "nothing but blanks to fold", "beyond ASCII"],
)
def test_a_subject_is_decoded_unchanged(auth_config: ChangeConfig, subject: str) -> None:
    received = deliver(auth_config, rendered=Rendered(subject=subject, html="<p>x</p>", text="x"))
    assert received.message["Subject"].strip() == subject
    assert max(map(len, received.content.split(b"\r\n"))) <= 998


def test_additional_headers_carry_all_their_values_and_the_mail_type(auth_config: ChangeConfig) -> None:
    headers = {
        "X-A": ("a", "b $messageType", ""),
        "": ("x",),
        "Content-Type": ("text/evil",),
        "reply-to": ("help@a.com",),
    }
    message = deliver(auth_config, headers=headers).message
    assert message.get_all("X-A") == ["a", "b confirmation"]
    assert message["Reply-To"] == "help@a.com"
    assert message.get_all("Content-Type", []) != ["text/evil"]
    assert message.get_content_type() == "multipart/alternative"


def test_an_additional_header_replaces_sender_recipient_line_and_subject(auth_config: ChangeConfig) -> None:
    headers = {"From": ("Other <other@example.org>",), "To": ("List <list@example.org>",), "subject": ("$messageType",)}
    received = deliver(auth_config, headers=headers)
    assert received.message.get_all("From") == ["Other <other@example.org>"]
    assert received.message.get_all("To") == ["List <list@example.org>"]
    assert received.message.get_all("Subject") == ["confirmation"]
    assert (received.sender, received.recipients) == ("other@example.org", ["ada@example.com"])


def test_the_first_of_several_addresses_in_an_additional_header_is_the_sender(auth_config: ChangeConfig) -> None:
    received = deliver(auth_config, headers={"From": ("Ada <ada@example.org>, Bob <bob@example.org>",)})
    assert received.sender == "ada@example.org"


@pytest.mark.parametrize(
    ("to", "envelope"),
    [("ada@bücher.example", "ada@xn--bcher-kva.example"), ("jürgen@example.com", "jürgen@example.com")],
)
def test_non_ascii_addresses_are_delivered(auth_config: ChangeConfig, to: str, envelope: str) -> None:
    message = Email(type=EmailType.INVITE, to=to, variables={})
    assert deliver(auth_config, message=message).recipients == [envelope]


def test_without_a_mail_server_delivery_succeeds(auth_config: ChangeConfig) -> None:
    auth_config(smtp={"host": ""})
    assert sender.send(MESSAGE, RENDERED, at=NOW) == ""


def test_delivery_without_a_recipient_fails(auth_config: ChangeConfig) -> None:
    auth_config(smtp={"host": ""})
    with pytest.raises(DeliveryFailed):
        sender.send(Email(type=EmailType.INVITE, to="", variables={}), RENDERED, at=NOW)


# --- encryption -------------------------------------------------------------------------------------------------------


@pytest.fixture
def trust(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda authority: monkeypatch.setenv("SSL_CERT_FILE", str(authority))


def test_starttls_is_used_when_offered(auth_config: ChangeConfig, tmp_path: Path, trust: Any) -> None:
    context, authority = server_tls(tmp_path, host="127.0.0.1")
    trust(authority)
    with FakeSmtp(starttls=context) as server:
        use(auth_config, server)
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received[0].encrypted
        assert server.received[0].hello == "auth.example.com"


@pytest.mark.parametrize("certified", ["127.0.0.2", "mail.example.com"])
def test_a_certificate_for_another_host_is_rejected(
    auth_config: ChangeConfig, tmp_path: Path, trust: Any, certified: str
) -> None:
    context, authority = server_tls(tmp_path, host=certified)
    trust(authority)
    with FakeSmtp(starttls=context) as server:
        use(auth_config, server)
        with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received == []


def test_an_unknown_authority_is_rejected(auth_config: ChangeConfig, tmp_path: Path) -> None:
    context, _authority = server_tls(tmp_path, host="127.0.0.1")
    with FakeSmtp(starttls=context) as server:
        use(auth_config, server)
        with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received == []


def test_port_465_is_encrypted_from_the_start(auth_config: ChangeConfig, tmp_path: Path, trust: Any) -> None:
    # A loopback address that only this process uses, so that parallel runs do not collide.
    host = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 127 | 2}"
    with socket.socket() as probe:
        try:
            probe.bind((host, smtp.IMPLICIT_TLS_PORT))
        except OSError as error:
            pytest.skip(f"port 465 is not available: {error}")
    context, authority = server_tls(tmp_path, host=host)
    trust(authority)
    with FakeSmtp(host=host, port=smtp.IMPLICIT_TLS_PORT, implicit_tls=context, mechanisms=["PLAIN"]) as server:
        use(auth_config, server, user=USER, password=Secret(PASSWORD))
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received[0].encrypted
        assert server.received[0].mechanism == "PLAIN"


# --- login ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "used"),
    [
        (["CRAM-MD5", "LOGIN", "PLAIN"], "CRAM-MD5"),
        (["LOGIN", "PLAIN"], "PLAIN"),
        (["LOGIN"], "LOGIN"),
        (["PLAIN"], "PLAIN"),
        ([], ""),
    ],
)
def test_the_login_uses_an_offered_mechanism(auth_config: ChangeConfig, offered: list[str], used: str) -> None:
    with FakeSmtp(mechanisms=offered) as server:
        use(auth_config, server, user=USER, password=Secret(PASSWORD))
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received[0].mechanism == used


def test_without_a_user_there_is_no_login(auth_config: ChangeConfig) -> None:
    with FakeSmtp(mechanisms=["PLAIN"]) as server:
        use(auth_config, server)
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received[0].mechanism == ""


@pytest.mark.parametrize("mechanism", ["CRAM-MD5", "LOGIN", "PLAIN"])
def test_a_wrong_password_fails_and_is_not_shown(auth_config: ChangeConfig, mechanism: str) -> None:
    with FakeSmtp(mechanisms=[mechanism]) as server:
        use(auth_config, server, user=USER, password=Secret("wrong password"))
        with pytest.raises(DeliveryFailed, match=r"^535 ") as failure:
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert "wrong password" not in str(failure.value)


def test_plain_login_to_a_remote_server_needs_encryption(auth_config: ChangeConfig) -> None:
    with FakeSmtp(host="127.0.0.3", mechanisms=["PLAIN"]) as server:
        use(auth_config, server, user=USER, password=Secret(PASSWORD))
        with pytest.raises(DeliveryFailed, match="no encryption"):
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert server.received == []


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "response", "for_good"),
    [
        ("CONNECT", "421 4.3.2 too busy", False),
        ("CONNECT", "554 5.7.1 not from there", False),
        ("MAIL", "451 4.3.0 try later", False),
        ("MAIL", "550 5.7.1 not from that sender", False),
        ("MAIL", "552 5.3.4 too large", True),
        ("RCPT", "450 4.2.0 greylisted", False),
        ("RCPT", "530 5.7.0 log in first", False),
        ("RCPT", "550 5.1.1 no such user", True),
        ("BODY", "451 4.3.0 try later", False),
        ("BODY", "554 5.5.1 no valid recipients", True),
        ("DATA", "452 4.3.1 disk full", False),
        ("DATA", "554 5.7.1 spam", True),
    ],
)
def test_a_rejection_has_the_servers_text_and_is_permanent_if_it_concerns_the_message(
    auth_config: ChangeConfig, moment: str, response: str, for_good: bool
) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        server.replies[moment] = response
        with pytest.raises(DeliveryFailed, match=f"^{response}$") as failure:
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert failure.value.permanent == for_good
        assert server.received == []


@pytest.mark.parametrize("moment", ["CONNECT", "MAIL", "RCPT", "BODY", "DATA"])
def test_a_closed_connection_is_a_temporary_failure(auth_config: ChangeConfig, moment: str) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        server.replies[moment] = DROP
        with pytest.raises(DeliveryFailed) as failure:
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert not failure.value.permanent
        server.replies.clear()
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert len(server.received) == 1


def test_an_unreachable_server_is_a_temporary_failure(auth_config: ChangeConfig) -> None:
    use(auth_config, FakeSmtp(port=ports.free_port()))
    with pytest.raises(DeliveryFailed, match="ConnectionRefusedError"):
        sender.send(MESSAGE, RENDERED, at=NOW)


def test_a_silent_server_is_given_up_after_a_timeout(auth_config: ChangeConfig) -> None:
    with FakeSmtp() as server:
        use(auth_config, server)
        server.hold = True
        with pytest.raises(DeliveryFailed, match=r"TimeoutError|timed out"):
            sender.send(MESSAGE, RENDERED, at=NOW)


@pytest.mark.parametrize(("line", "pause", "reason"), [(b"2", 0.1, "timed out"), (b"220-x\r\n" * 1000, 0, "too long")])
def test_a_server_whose_reply_does_not_end_is_given_up(
    auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch, line: bytes, pause: float, reason: str
) -> None:
    monkeypatch.setattr(smtp, "OPEN_SECONDS", 0.3 if pause else 60.0)

    def greet(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            for _ in range(300):
                connection.sendall(line)
                time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        auth_config(smtp={"host": "127.0.0.1", "port": port, "admin_email": "noreply@example.com"})
        started = time.monotonic()
        with pytest.raises(DeliveryFailed, match=reason):
            sender.send(MESSAGE, RENDERED, at=NOW)
    assert time.monotonic() - started < 10


def test_the_addresses_of_a_server_share_the_timeout(
    auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "CONNECT_SECONDS", 2.0)
    with (
        FakeSmtp() as server,
        socket.create_server(("127.0.0.1", 0), backlog=0) as silent,
        contextlib.ExitStack() as stack,
    ):
        use(auth_config, server)
        for _ in range(3):  # further connections get no answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        addresses = [silent.getsockname()] * 3
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", address) for address in addresses])
        started = time.monotonic()
        with pytest.raises(DeliveryFailed, match="timed out"):
            sender.send(MESSAGE, RENDERED, at=NOW)
        assert time.monotonic() - started < 4

        addresses[2] = (server.host, server.port)
        sender.send(MESSAGE, RENDERED, at=NOW)
        assert len(server.received) == 1


def test_all_replies_to_a_message_have_a_timeout_together(
    auth_config: ChangeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "MESSAGE_SECONDS", 0.3)
    with FakeSmtp() as server:
        use(auth_config, server)
        server.replies["DATA"] = HANG
        started = time.monotonic()
        with pytest.raises(DeliveryFailed, match="timed out"):
            sender.send(MESSAGE, RENDERED, at=NOW)
    assert time.monotonic() - started < 10


# --- log and other backends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rejection", ["", "550 no"])
def test_every_attempt_is_logged_if_enabled(
    auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture, rejection: str
) -> None:
    caplog.set_level(logging.INFO, "mailer.email.sender")
    with FakeSmtp() as server:
        use(auth_config, server, logging_enabled=True)
        if rejection:
            server.replies["RCPT"] = rejection
            with pytest.raises(DeliveryFailed):
                sender.send(MESSAGE, RENDERED, at=NOW)
        else:
            sender.send(MESSAGE, RENDERED, at=NOW)
    (record,) = (record for record in caplog.records if record.name == "mailer.email.sender")
    fields = {name: vars(record)[name] for name in ("msg", "event", "mail_type", "mail_from", "mail_to")}
    assert fields == {
        "msg": "mail.send",
        "event": "mail.send",
        "mail_type": "confirmation",
        "mail_from": "noreply@example.com",
        "mail_to": "ada@example.com",
    }


def test_another_backend_receives_the_same_email(auth_config: ChangeConfig, tmp_path: Path) -> None:
    auth_config(
        mailer={
            "backend": "django.core.mail.backends.filebased.EmailBackend",
            "backend_options": {"file_path": str(tmp_path)},
        },
        smtp={"admin_email": "noreply@example.com", "headers": {"X-A": ("a", "b")}},
    )
    sender.send(MESSAGE, RENDERED, at=NOW)
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert "Message-ID: <11111111-2222-4333-8444-555555555555@example.com>\n" in text
    assert "X-A: a\nX-A: b\n" in text
    assert "Content-Type: text/html" in text


def test_djangos_own_back_end_does_not_wait_for_ever() -> None:
    connection: Any = mail.get_connection("django.core.mail.backends.smtp.EmailBackend", host="127.0.0.1")
    assert connection.timeout == 60


def test_anymail_receives_the_email_and_its_id_is_returned(auth_config: ChangeConfig) -> None:
    auth_config(
        mailer={"backend": "anymail.backends.test.EmailBackend"},
        smtp={"admin_email": "noreply@example.com", "headers": {"X-A": ("a", "b")}},
    )
    assert sender.send(MESSAGE, RENDERED, at=NOW) != ""
