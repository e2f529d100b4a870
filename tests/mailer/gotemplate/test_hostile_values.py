"""Hostile values in templates and headers: an email keeps its own headers and its single recipient."""

from __future__ import annotations

import email
import os
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.utils import timezone
from django.utils.encoding import punycode
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from accounts.messages import confirmation_emails
from accounts.users import identifiers
from accounts.users.records import UserRecord
from authsvc import errors
from authsvc.caller import Caller
from authsvc.messaging import DeliveryFailed, Email, EmailType
from mailer import gotemplate
from mailer.delivery import encryption
from mailer.email import sender as mail
from mailer.rendering import message_types, renderer
from tests.conftest import ChangeConfig
from tests.fakes.smtp import FakeSmtp, Received
from tokens.one_time.one_time_tokens import OneTimeSecret

ADMIN = "noreply@example.com"
HEADERS = ["Content-Type", "Date", "From", "MIME-Version", "Message-ID", "Subject", "To"]
PART_HEADERS = ["Content-Transfer-Encoding", "Content-Type", "MIME-Version"]
REFUSALS = (DeliveryFailed, ValueError, gotemplate.TemplateRenderError)

LINE_ENDS = ("\r\n", "\n", "\r", "\0", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
PIECES = (
    *LINE_ENDS,
    *(
        "\r\n ",
        "\n\t",
        "\r\n\r\n",
        "\r\n.\r\n",
        "\n.\n",
        "\\r\\n",
        "%0d%0a",
        "&#13;&#10;",
        "\\ud800",
        "\ud800",
        "\udc8a",
    ),
    *("Bcc: eve@example.com", "To: eve@example.com", "Content-Type: text/plain", "MAIL FROM:<eve@example.com>", "QUIT"),
    *("=?utf-8?q?a=0D=0ABcc:_eve=40example.com?=", "=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLmNvbQ==?=", "=?", "?="),
    *("\u202e", "\u2066", "\u200f", "\ufeff", "\u200d", "é", "漢字", "🦊", "İ", "ﬀ", "。", "ß"),
    *("<", ">", "<eve@example.com>", "eve@example.com,", '"', "\\", ";", ":", "@", "(", ")", "[", "{{ .Token }}"),
    *(" ", "  ", "\t", "\u3000", " " * 2_000, "x" * 2_000, "é" * 2_000, "word " * 400),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=8).map("".join)
JSON_TEXTS = TEXTS.filter(lambda text: not re.search("[\0\ud800-\udfff]", text))
"""Values that the input parser and the database accept."""


def addresses(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Valid addresses, and addresses that contain one of `texts`."""
    local = st.text("aZ09.!#$%&'*+/=?^_`{|}~-", min_size=1, max_size=9)
    good = st.builds("{}@{}".format, local, st.sampled_from(["example.com", "B", "a-b.c.example", f"{'x' * 63}.test"]))
    spoiled = st.builds(lambda whole, at, text: whole[:at] + text + whole[at:], good, st.integers(0, 20), texts)
    return good | spoiled


steady = settings(
    max_examples=int(os.environ.get("FUZZING_EXAMPLES", "75")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def peer(auth_config: ChangeConfig) -> Iterator[FakeSmtp]:
    with FakeSmtp() as server:
        auth_config(smtp={"host": server.host, "port": server.port, "admin_email": ADMIN})
        yield server


def send(peer: FakeSmtp, message: Email) -> Received | None:
    """The email as received, starting from the encrypted job; None if it was rejected and nothing was sent."""
    peer.received.clear()
    opened = encryption.decrypt(encryption.encrypt(message), message_id=message.id)
    assert isinstance(opened, Email)
    try:
        mail.send(opened, renderer.render(opened.type, opened.variables), at=timezone.now())
    except REFUSALS:
        assert peer.received == []
        return None
    (received,) = peer.received
    return received


def assert_sound(received: Received, message: Email, *, headers: list[str] = HEADERS) -> EmailMessage:
    """Assert that the only email to the only recipient is well-formed for strict and lenient parsers, and return it."""
    local, _, domain = message.to.rpartition("@")
    assert received.recipients == [f"{local}@{punycode(domain)}"]
    content = received.content
    assert re.search(rb"(?<!\r)\n|\r(?!\n)|[^\t\r\n -~]", content) is None
    assert max(map(len, content.split(b"\r\n"))) <= 998  # RFC 5322 §2.1.1
    # RFC 5322 §3.2.2: a folded line must not look like the end of the header.
    head = content.partition(b"\r\n\r\n")[0]
    assert all(line.strip() for line in head.split(b"\r\n"))

    read = received.message
    assert sorted(read.keys()) == sorted(headers)
    assert sorted(email.message_from_bytes(content, policy=policy.compat32).keys()) == sorted(headers)
    assert read.defects == []
    assert read["Message-ID"] == f"<{message.id}@example.com>"
    assert [address.addr_spec for address in read["From"].addresses] == [ADMIN]
    plain, html = read.iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    assert [sorted(part.keys()) for part in (plain, html)] == [PART_HEADERS, PART_HEADERS]
    return read


def a_user(*, address: str = "ada@example.com", **metadata: Any) -> UserRecord:
    now = timezone.now()
    return UserRecord(
        id=UUID(int=1),
        aud="authenticated",
        role="authenticated",
        email=address,
        phone="",
        password_hash="",
        user_metadata_json=orjson.dumps(metadata).decode(),
        created_at=now,
        updated_at=now,
    )


def a_magic_link(user: UserRecord, *, redirect_to: str = "http://localhost:3000") -> Email:
    return confirmation_emails.build(
        EmailType.MAGIC_LINK,
        user,
        secret=OneTimeSecret(code="123456", link_token="0" * 56),
        redirect_to=redirect_to,
        caller=Caller(link_base="http://127.0.0.1:8081"),
        at=timezone.now(),
    )


def as_one_line(text: str) -> str:
    return re.sub("[\x00-\x1f\x7f\x85\u2028\u2029]", "", text).strip()


@steady
@example(name="Ada\r\nBcc: eve@example.com", redirect_to="http://a/\r\n\r\n.\r\nQUIT", message_id=UUID(int=0))
@example(name="=?utf-8?q?a=0D=0ABcc:_eve=40example.com?=", redirect_to="", message_id=UUID(int=0))
@example(name=" " * 2_000 + "x", redirect_to="", message_id=UUID(int=0))
@example(name="x" * 2_000, redirect_to="", message_id=UUID(int=0))
@given(name=JSON_TEXTS, redirect_to=JSON_TEXTS, message_id=st.uuids())
def test_metadata_in_a_subject_does_not_leave_it(
    peer: FakeSmtp, auth_config: ChangeConfig, name: str, redirect_to: str, message_id: UUID
) -> None:
    auth_config(mailer={"subjects": {"magic_link": "{{ .Data.name }}, your link"}})
    made = a_magic_link(a_user(name=name), redirect_to=redirect_to)
    message = Email(type=made.type, to=made.to, variables=made.variables, id=message_id)
    received = send(peer, message)
    assert received is not None
    assert assert_sound(received, message)["Subject"].strip() == as_one_line(f"{name}, your link")


@steady
@given(kind=st.sampled_from(EmailType), text=TEXTS, data=st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_variables_inject_no_header(
    peer: FakeSmtp, auth_config: ChangeConfig, kind: EmailType, text: str, data: dict[str, str]
) -> None:
    names = (
        "SiteURL Email ConfirmationURL Token TokenHash RedirectTo NewEmail SendingTo OldEmail Phone OldPhone"
        " Provider FactorType"
    ).split()
    subject = "".join(f"{{{{ .{name} }}}}" for name in names) + "{{ range $k, $v := .Data }}{{ $k }}{{ $v }}{{ end }}"
    auth_config(mailer={"subjects": dict.fromkeys((message_types.EMAIL_DEFINITIONS[kind].key,), subject)})
    message = Email(type=kind, to="ada@example.com", variables={**dict.fromkeys(names, text), "Data": data})
    received = send(peer, message)
    if received is not None:
        assert_sound(received, message)


@steady
@given(subject=TEXTS, sender=TEXTS, site=TEXTS, name=TEXTS, values=st.lists(TEXTS, max_size=3))
def test_configured_values_inject_no_header(
    peer: FakeSmtp, auth_config: ChangeConfig, subject: str, sender: str, site: str, name: str, values: list[str]
) -> None:
    auth_config(
        mailer={"subjects": {"magic_link": subject}},
        smtp={"sender_name": sender, "headers": {"X-Tag": tuple(values), f"X-{name}:": ("x",)}},
        site={"url": site},
    )
    message = a_magic_link(a_user())
    received = send(peer, message)
    if received is not None:
        kept = [value for value in values if value]
        assert assert_sound(received, message, headers=[*HEADERS, *["X-Tag"] * len(kept)])["To"] == message.to


@steady
@example(text="ada@example.com\r\nRCPT TO:<eve@example.com>")
@example(text="a..b.@b.c")
@given(text=addresses(JSON_TEXTS))
def test_an_accepted_address_is_the_only_recipient(peer: FakeSmtp, text: str) -> None:
    try:
        address = identifiers.email(text)
    except errors.ApiError:
        return
    assert address == text.lower()
    message = a_magic_link(a_user(address=address))
    received = send(peer, message)
    assert received is not None
    assert received.recipients == [address]
    assert assert_sound(received, message)["To"] == address


@steady
@example(to="ada@exam\nple.com")
@example(to="eve@example.com, ada@example.com")
@example(to="Ada <eve@example.com>")
@given(to=addresses(TEXTS))
def test_an_unchecked_address_is_the_only_recipient_or_rejected(peer: FakeSmtp, to: str) -> None:
    message = Email(type=EmailType.PASSWORD_CHANGED, to=to, variables={"Email": to})
    received = send(peer, message)
    if received is not None:
        assert_sound(received, message)
