"""Recipients of emails: which are refused, in which order, without revealing accounts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import dns.resolver
import pytest

from accounts import errors
from accounts.messages import mail_hosts, recipients
from authsvc.conf import AuthConfig, Rate
from authsvc.errors import UnexpectedFailure
from authsvc.messaging import EmailType, Sender
from authsvc.models import RateLimit
from tests.conftest import Api, Mailbox
from tests.factories import PASSWORD, make_user
from tests.fakes.dns_server import FakeDns
from tests.fakes.http_peer import HttpPeer, Response, in_json
from tests.observations import assert_error, backdate_rate_limits, table_contents

ChangeConfig = Callable[..., AuthConfig]

EMAIL = "user@shop.net"
QUOTA = "email rate limit exceeded"
INVALID = in_json({"valid": False})


@pytest.fixture
def names(auth_config: ChangeConfig) -> Iterator[FakeDns]:
    """Extended validation is on, and `shop.net` has a mail exchanger."""
    auth_config(recipients={"extended_validation": True})
    with FakeDns() as server:
        server.records["shop.net", "MX"] = ["10 mx1.shop.net.", "20 MX2.shop.net."]
        yield server


@pytest.fixture
def service(auth_config: ChangeConfig) -> Iterator[HttpPeer]:
    """A validation service that accepts every address by default."""
    with HttpPeer() as peer:
        peer.respond(in_json({"valid": True}))
        auth_config(recipients={"service_url": f"{peer.url}/check?v=1"})
        yield peer


def validate(address: str, kind: EmailType = EmailType.CONFIRMATION) -> None:
    recipients.validate_address(address, type=kind)


def is_accepted(address: str) -> bool:
    try:
        validate(address)
    except errors.EmailAddressInvalid:
        return False
    return True


def not_authorized(address: str) -> str:
    return f'Email address "{address}" cannot be used as it is not authorized'


def invalid(address: str) -> str:
    return f'Email address "{address}" is invalid'


# The allow list


@pytest.mark.parametrize(
    ("listed", "address", "passes"),
    [
        ((), "user@x.com", True),
        (("a@x.com",), "a@x.com", True),
        (("a@x.com",), "A@X.com", True),
        (("A@X.Com", " b@x.com "), "b@x.com", True),
        (("a@x.com",), "a+t@x.com", True),
        (("a@x.com",), "a+t+u@x.com", True),
        (("a+t@x.com",), "a+t@x.com", True),
        (("a+t@x.com",), "a@x.com", False),
        (("a@x.com",), "b@x.com", False),
        (("a@x.com",), "aa@x.com", False),
        (("a@x.com",), "a@x.com.org", False),
        (("a@x.com",), "a@sub.x.com", False),
        (("a@x.com",), "b+a@x.com", False),
        (("",), "a@x.com", False),
    ],
)
def test_allowed_recipients_pass_with_any_label(
    auth_config: ChangeConfig, listed: tuple[str, ...], address: str, passes: bool
) -> None:
    auth_config(recipients={"authorized_addresses": listed})
    if passes:
        recipients.check_allowlist(address)
        return
    with pytest.raises(errors.EmailAddressNotAuthorized) as refusal:
        recipients.check_allowlist(address)
    assert (refusal.value.status, refusal.value.error_code) == (400, "email_address_not_authorized")
    assert refusal.value.message == not_authorized(address)


# Checks without a look-up


@pytest.mark.parametrize(
    "address",
    [
        "test@gmail.com",
        "Example@Gmail.com",
        "someone@gmail.com",
        "test@email.com",
        "short@gmail.com",
        "a@example.com",
        "a@EXAMPLE.org",
        "a@example.net",
        "a@test.com",
        "a@gamil.com",
        "a@gamai.com",
        "a@anonymous.com",
        "user@email.com",
        "a@localhost",
        "a@local",
        "a@test",
        "a@example",
        "a@invalid",
        "a@shop.test",
        "a@shop.example",
        "a@shop.invalid",
        "a@printer.local",
        "a@x.localhost",
        "a@intranet",
        "a..b@shop.net",
        ".a@shop.net",
        "a.@shop.net",
        "a@shop.net.",
        "a@.shop.net",
        "a@shop..net",
        "A <a@shop.net>",
        "a@b@shop.net",
        "@shop.net",
        "a",
        "",
        "a@shop.net\n",
    ],
)
def test_fake_address_is_rejected_without_look_up(names: FakeDns, service: HttpPeer, address: str) -> None:
    names.records["email.com", "MX"] = ["10 mx.email.com."]
    with pytest.raises(errors.EmailAddressInvalid) as refusal:
        validate(address)
    assert (refusal.value.status, refusal.value.error_code) == (400, "email_address_invalid")
    assert refusal.value.message == invalid(address)
    assert names.questions == []
    if address != "a@intranet":  # the DNS check runs concurrently with the service
        assert service.received == []


@pytest.mark.parametrize("address", ["longer@gmail.com", "test@shop.net", "o'neil+x@shop.net", "a.b@shop.net"])
def test_other_addresses_are_accepted(names: FakeDns, address: str) -> None:
    assert is_accepted(address)


def test_without_extended_validation_every_address_is_accepted(auth_config: ChangeConfig) -> None:
    with FakeDns() as server:
        auth_config(recipients={"blocked_exchangers": frozenset({"mx1.shop.net"})})
        for address in ("test@gmail.com", "a@localhost", EMAIL):
            validate(address)
    assert server.questions == []


# DNS


@pytest.mark.parametrize(
    ("records", "passes"),
    [
        ({("h.org", "MX"): ["10 mx.h.org."]}, True),
        ({("h.org", "MX"): ["0 ."]}, True),
        ({("h.org", "A"): ["192.0.2.1"]}, True),
        ({("h.org", "AAAA"): ["2001:db8::1"]}, True),
        ({("h.org", "TXT"): ['"v=spf1 -all"']}, False),
        ({}, False),
    ],
    ids=["MX", "null MX", "A", "AAAA", "neither", "no such name"],
)
def test_host_needs_mail_exchanger_or_address(
    names: FakeDns, records: dict[tuple[str, str], list[str]], passes: bool
) -> None:
    names.records.update(records)
    if passes:
        validate("a@H.org")
        return
    with pytest.raises(errors.EmailAddressInvalid) as refusal:
        validate("a@H.org")
    assert refusal.value.message == invalid("a@H.org")


def test_failing_name_server_accepts_address(names: FakeDns) -> None:
    names.fails.add("h.org")
    validate("a@h.org")
    assert names.questions


def test_silent_name_server_and_silent_service_time_out_after_three_seconds_together(
    names: FakeDns, service: HttpPeer
) -> None:
    names.silent.add("h.org")
    service.respond(Response(hang=True))
    started = time.monotonic()
    validate("a@h.org")
    assert 3 <= time.monotonic() - started < 5
    assert names.questions
    service.wait_for_requests(1)


def test_without_name_server_every_host_is_accepted(names: FakeDns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns.resolver, "default_resolver", dns.resolver.Resolver(configure=False))
    assert is_accepted("a@h.org")


def test_well_known_hosts_are_not_looked_up(names: FakeDns) -> None:
    for host in mail_hosts._WELL_KNOWN:
        validate(f"recipient@{host}")
    assert names.questions == []
    assert len(mail_hosts._WELL_KNOWN) == 19


@pytest.mark.parametrize("blocked", ["mx1.shop.net", "mx2.shop.net", "192.0.2.1", "2001:db8::1"])
def test_email_to_blocked_exchanger_is_rejected(names: FakeDns, auth_config: ChangeConfig, blocked: str) -> None:
    names.records |= {("h.org", "A"): ["192.0.2.1"], ("h.org", "AAAA"): ["2001:db8::1"]}
    address = "a@h.org" if blocked[0] in "12" else EMAIL
    validate(address)
    auth_config(recipients={"blocked_exchangers": frozenset({blocked})})
    with pytest.raises(UnexpectedFailure) as refusal:
        validate(address)
    assert (refusal.value.status, refusal.value.error_code) == (500, "unexpected_failure")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (EmailType.CONFIRMATION, "Error sending confirmation email"),
        (EmailType.INVITE, "Error sending invite email"),
        (EmailType.RECOVERY, "Error sending recovery email"),
        (EmailType.MAGIC_LINK, "Error sending magic link email"),
        (EmailType.EMAIL_CHANGE, "Error sending email change email"),
        (EmailType.REAUTHENTICATION, "Error sending reauthentication email"),
    ],
)
def test_error_names_kind_of_email(names: FakeDns, auth_config: ChangeConfig, kind: EmailType, text: str) -> None:
    auth_config(recipients={"blocked_exchangers": frozenset({"mx1.shop.net"})})
    with pytest.raises(UnexpectedFailure) as refusal:
        validate(EMAIL, kind)
    assert refusal.value.message == text


# The validation service


def test_service_receives_address_and_configured_headers(service: HttpPeer, auth_config: ChangeConfig) -> None:
    auth_config(recipients={"service_headers": {"X-Key": ("k",), "X-Many": ("a", "b")}})
    validate(EMAIL)
    (received,) = service.received
    assert (received.method, received.target, received.json()) == ("POST", "/check?v=1", {"email": EMAIL})
    assert received.headers["Content-Type"] == "application/json"
    assert (received.headers["X-Key"], received.headers["X-Many"]) == ("k", "a, b")


@pytest.mark.parametrize(
    "response", [INVALID, in_json({"valid": False}, status=201), Response(body=b' {"valid" : false, "a":1}')]
)
def test_address_rejected_by_service_is_rejected(service: HttpPeer, response: Response) -> None:
    service.respond(response)
    with pytest.raises(errors.EmailAddressInvalid) as refusal:
        validate(EMAIL)
    assert refusal.value.message == invalid(EMAIL)


PASSES: dict[str, Response] = {
    "yes": in_json({"valid": True}),
    "no, with an error's status": in_json({"valid": False}, status=500),
    "no, by redirect": Response(status=302, headers={"Location": "https://example.com/"}, body=b'{"valid":false}'),
    "no member": in_json({}),
    "null": in_json({"valid": None}),
    "text": in_json({"valid": "false"}),
    "number": in_json({"valid": 0}),
    "a list": in_json([False]),
    "false": in_json(False),
    "HTML": Response(body=b"<html></html>"),
    "empty": Response(body=b""),
    "more than is read": Response(body=b'{"reason":"no such mailbox","valid":false}'),
    "closed": Response(raw=b"", close=True),
    "silence": Response(hang=True),
    "a byte now and then": Response(body=b'{"valid":false}', drip=0.1),
}


@pytest.mark.parametrize("response", PASSES.values(), ids=PASSES)
def test_service_accepts_address_with_any_other_response(service: HttpPeer, response: Response) -> None:
    service.respond(response)
    validate(EMAIL)
    assert len(service.received) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://", "nonsense", "file:///etc/passwd", "http://[x"])
def test_an_unreachable_service_accepts_the_address(auth_config: ChangeConfig, url: str) -> None:
    auth_config(recipients={"service_url": url})
    assert is_accepted(EMAIL)


def test_dns_and_service_are_queried_concurrently(names: FakeDns, service: HttpPeer) -> None:
    both_queried = threading.Barrier(2)
    names.before = both_queried.wait
    service.respond(Response(body=b'{"valid":true}', before=both_queried.wait))
    validate(EMAIL)
    is_one_waiting = both_queried.n_waiting > 0
    both_queried.abort()
    assert not is_one_waiting
    assert (len(names.questions), len(service.received)) == (1, 1)


def test_dns_and_service_can_each_reject(names: FakeDns, service: HttpPeer) -> None:
    with pytest.raises(errors.EmailAddressInvalid):
        validate("a@nowhere.org")
    service.respond(INVALID)
    with pytest.raises(errors.EmailAddressInvalid):
        validate(EMAIL)


def test_log_contains_no_configured_headers_or_address(
    service: HttpPeer, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    auth_config(recipients={"service_headers": {"X-Key": ("hunter2",)}})
    service.respond(Response(raw=b"", close=True))
    validate(EMAIL)
    shown = " ".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "the email validation service gave no response" in shown
    assert "hunter2" not in shown
    assert EMAIL not in shown


# Endpoints


@pytest.mark.django_db
def test_sign_up_accepts_authorized_addresses_only(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(recipients={"authorized_addresses": ("a@x.com",)})
    assert api.post("/signup", {"email": "a+t@x.com", "password": PASSWORD}).status_code == 200
    before = table_contents()
    response = api.post("/signup", {"email": "b@x.com", "password": PASSWORD})
    assert_error(response, 400, "email_address_not_authorized", not_authorized("b@x.com"))
    assert table_contents() == before
    assert [mail.to for mail in mailbox.emails] == ["a+t@x.com"]


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["test@gmail.com", "a@example.com", "short@gmail.com"])
def test_sign_up_rejects_address_without_mail_host(api: Api, mailbox: Mailbox, names: FakeDns, address: str) -> None:
    before = table_contents()
    response = api.post("/signup", {"email": address, "password": PASSWORD})
    assert_error(response, 400, "email_address_invalid", invalid(address))
    assert table_contents() == before
    assert mailbox.emails == []


def requests_for(address: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("/signup", {"email": address, "password": PASSWORD}),
        ("/recover", {"email": address}),
        ("/resend", {"type": "signup", "email": address}),
        ("/magiclink", {"email": address}),
        ("/otp", {"email": address}),
    ]


def known_or_not(state: str, address: str = EMAIL) -> None:
    if state != "unknown":
        make_user(email=address, confirmed=state == "confirmed")


STATES = ["unknown", "unconfirmed", "confirmed"]
PATHS = ["/signup", "/recover", "/resend", "/magiclink", "/otp"]


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("path", PATHS)
def test_rejected_recipient_reveals_no_account(
    api: Api, mailbox: Mailbox, names: FakeDns, service: HttpPeer, auth_config: ChangeConfig, path: str, state: str
) -> None:
    known_or_not(state)
    body = dict(requests_for(EMAIL))[path]
    before = table_contents()

    auth_config(recipients={"authorized_addresses": ("a@x.com",)})
    assert_error(api.post(path, body), 400, "email_address_not_authorized", not_authorized(EMAIL))
    backdate_rate_limits(timedelta(minutes=16))

    auth_config(recipients={"authorized_addresses": ()})
    service.respond(INVALID)
    assert_error(api.post(path, body), 400, "email_address_invalid", invalid(EMAIL))
    backdate_rate_limits(timedelta(minutes=16))

    service.respond(in_json({"valid": True}))
    names.records.clear()
    assert_error(api.post(path, body), 400, "email_address_invalid", invalid(EMAIL))

    assert table_contents() == before
    assert mailbox.emails == []


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/signup", "Error sending confirmation email"),
        ("/recover", "Error sending recovery email"),
        ("/resend", "Error sending confirmation email"),
    ],
)
def test_a_blocked_exchanger_reveals_no_account(
    api: Api, mailbox: Mailbox, names: FakeDns, auth_config: ChangeConfig, path: str, text: str, state: str
) -> None:
    auth_config(recipients={"blocked_exchangers": frozenset({"mx2.shop.net"})})
    known_or_not(state)
    before = table_contents()
    response = api.post(path, dict(requests_for(EMAIL))[path])
    assert (response.status_code, response.json()["error_code"], response.json()["msg"]) == (
        500,
        "unexpected_failure",
        text,
    )
    assert table_contents() == before
    assert mailbox.emails == []


@pytest.mark.django_db
def test_a_blocked_exchanger_stops_a_magic_link(api: Api, names: FakeDns, auth_config: ChangeConfig) -> None:
    auth_config(recipients={"blocked_exchangers": frozenset({"mx1.shop.net"})})
    known_or_not("confirmed")
    assert api.post("/magiclink", {"email": EMAIL}).json()["msg"] == "Error sending magic link email"


# The quota


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("path", PATHS)
def test_an_exhausted_quota_reveals_no_account(
    api: Api, mailbox: Mailbox, auth_config: ChangeConfig, path: str, state: str
) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    assert api.post("/signup", {"email": "first@shop.net", "password": PASSWORD}).status_code == 200
    known_or_not(state)
    before = table_contents()

    assert_error(api.post(path, dict(requests_for(EMAIL))[path]), 429, "over_email_send_rate_limit", QUOTA)

    assert table_contents() == before
    assert len(mailbox.emails) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("path", ["/recover", "/resend"])
def test_zero_quota_applies_with_autoconfirm(api: Api, auth_config: ChangeConfig, path: str, state: str) -> None:
    auth_config(limits={"email_sent": Rate(events=0)}, mailer={"autoconfirm": True})
    known_or_not(state)
    assert_error(api.post(path, dict(requests_for(EMAIL))[path]), 429, "over_email_send_rate_limit", QUOTA)


@pytest.mark.django_db
def test_requests_without_message_use_no_quota(api: Api, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    make_user(email="confirmed@shop.net")
    for number in range(3):
        # Another client each time, because requests count against the client's share whether or not they send.
        clients = [{"X-Forwarded-For": f"198.51.{request}.{number}"} for request in range(3)]
        assert api.post("/recover", {"email": f"unknown{number}@shop.net"}, headers=clients[0]).status_code == 200
        body = {"type": "signup", "email": f"unconfirmed{number}@shop.net"}
        assert api.post("/resend", body, headers=clients[1]).status_code == 200
        backdate_rate_limits(timedelta(minutes=16))
        response = api.post("/signup", {"email": "confirmed@shop.net", "password": PASSWORD}, headers=clients[2])
        assert (response.status_code, len(response.json()["identities"])) == (200, 1)
    assert not RateLimit.objects.filter(bucket="email_sent").exists()
    assert mailbox.emails == []
    backdate_rate_limits(timedelta(minutes=1))
    assert api.post("/recover", {"email": "confirmed@shop.net"}).status_code == 200
    assert len(mailbox.emails) == 1
    assert_error(api.post("/recover", {"email": "unknown@shop.net"}), 429, "over_email_send_rate_limit", QUOTA)


@pytest.mark.django_db
def test_exhausted_quota_applies_with_autoconfirm(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(limits={"email_sent": Rate(events=1)})
    assert api.post("/signup", {"email": "first@shop.net", "password": PASSWORD}).status_code == 200
    auth_config(mailer={"autoconfirm": True})
    make_user(email=EMAIL)
    for number, address in enumerate((EMAIL, "unknown@shop.net")):
        response = api.post("/recover", {"email": address}, headers={"X-Forwarded-For": f"198.51.100.{number}"})
        assert_error(response, 429, "over_email_send_rate_limit", QUOTA)


@pytest.mark.django_db
def test_the_allow_list_is_checked_before_the_quota_and_the_address_after_it(
    api: Api, service: HttpPeer, auth_config: ChangeConfig
) -> None:
    service.respond(INVALID)
    auth_config(
        limits={"email_sent": Rate(events=1)}, recipients={"authorized_addresses": ("a@shop.net", "c@shop.net")}
    )
    for address in ("b@shop.net", "d@shop.net"):
        response = api.post("/signup", {"email": address, "password": PASSWORD})
        assert_error(response, 400, "email_address_not_authorized", not_authorized(address))
    assert service.received == []
    response = api.post("/signup", {"email": "a@shop.net", "password": PASSWORD})
    assert_error(response, 400, "email_address_invalid", invalid("a@shop.net"))
    response = api.post("/signup", {"email": "c@shop.net", "password": PASSWORD})
    assert_error(response, 429, "over_email_send_rate_limit", QUOTA)
    assert len(service.received) == 1


@pytest.mark.django_db
def test_interval_is_checked_before_recipient(api: Api, auth_config: ChangeConfig) -> None:
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    auth_config(recipients={"authorized_addresses": ("a@x.com",)})
    assert api.post("/recover", {"email": EMAIL}).json()["msg"].startswith("For security purposes, you can only")


@pytest.mark.django_db
def test_two_recipients_use_quota_once(auth_config: ChangeConfig, service: HttpPeer) -> None:
    auth_config(limits={"email_sent": Rate(events=5)})
    sender = Sender(("192.0.2.1",))
    recipients.reserve_email("new@shop.net", "old@shop.net", type=EmailType.EMAIL_CHANGE, sender=sender)
    assert RateLimit.objects.get(bucket="email_sent").tokens == 4
    assert [received.json()["email"] for received in service.received] == ["new@shop.net", "old@shop.net"]
