"""To whom mail may be sent: those an operator has listed, at addresses where it would arrive.

Asks the network: never to be called with a transaction open.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec

from accounts import errors
from accounts.messages import mail_hosts
from authsvc import conf, messaging
from authsvc.messaging import EmailKind
from authsvc.outgoing import http

logger = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=3)
_LONGEST_VERDICT = 32

# RFC 5322 §3.4.1 without quoting, comments and literals.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_ATOM}(?:\.{_ATOM})*")
_LABEL = re.compile(r"\+[^@]*(?=@)")

# What people type who do not want to give an address, or mistype.
_NOBODYS = frozenset({"test@gmail.com", "example@gmail.com", "someone@gmail.com", "test@email.com"})
_NO_HOSTS = frozenset(
    {
        "test", "example", "invalid", "local", "localhost", "test.com", "example.com", "example.net", "example.org",
        "gamil.com", "gamai.com", "anonymous.com", "email.com",
    }
)  # fmt: skip
_NO_TREES = (".test", ".example", ".invalid", ".local", ".localhost")
_SHORTEST_GMAIL_NAME = 6


class _Verdict(msgspec.Struct, frozen=True):
    valid: bool | None = None


def reserve_email(*addresses: str, kind: EmailKind) -> None:
    """Let one sending of this kind of mail to these addresses through and take it from the installation's quota.

    Raises EmailAddressNotAuthorized, EmailRateExceeded, EmailAddressInvalid or MessageNotAccepted, in this order.
    """
    _check(*addresses, kind=kind, quota=messaging.consume_email_quota)


def check_email(*addresses: str, kind: EmailKind) -> None:
    """The refusals of `admit`, and their time, for a request that turns out to send nothing; takes nothing."""
    _check(*addresses, kind=kind, quota=messaging.check_email_quota)


def check_allowlist(address: str) -> None:
    """Raises EmailAddressNotAuthorized when the operator has listed others only; a `+label` makes no difference."""
    listed = {each.strip().lower() for each in conf.current().recipients.authorized_addresses}
    if listed and listed.isdisjoint({address.lower(), _LABEL.sub("", address.lower())}):
        raise errors.EmailAddressNotAuthorized(address)


def validate_address(address: str, *, kind: EmailKind) -> None:
    """Check, as far as is configured, that mail to an address would arrive. Takes 3 seconds at most.

    Raises EmailAddressInvalid, and MessageNotAccepted where the operator has blocked who takes the mail of its host.
    What cannot be found out in time, or at all, counts in favour of the address.
    """
    configured = conf.current().recipients
    deadline = time.monotonic() + _PATIENCE.total_seconds()
    if not configured.extended_validation:
        _ask_service(address)
        return
    _check_text(address)
    if not configured.service_url:
        _check_host(address, kind=kind, deadline=deadline)
        return
    with ThreadPoolExecutor(max_workers=1) as beside:
        of_host = beside.submit(_check_host, address, kind=kind, deadline=deadline)
        _ask_service(address)
    of_host.result()


def _check(*addresses: str, kind: EmailKind, quota: Callable[[], None]) -> None:
    for address in addresses:
        check_allowlist(address)
    quota()
    for address in addresses:
        validate_address(address, kind=kind)


def _check_text(address: str) -> None:
    lower = address.lower()
    name, _, host = lower.rpartition("@")
    if (
        not _ADDRESS.fullmatch(address)
        or lower in _NOBODYS
        or host in _NO_HOSTS
        or host.endswith(_NO_TREES)
        or (host == "gmail.com" and len(name) < _SHORTEST_GMAIL_NAME)
    ):
        raise errors.EmailAddressInvalid(address)


def _check_host(address: str, *, kind: EmailKind, deadline: float) -> None:
    found = mail_hosts.exchangers(address.lower().rpartition("@")[2], deadline=deadline)
    if found is None:
        raise errors.EmailAddressInvalid(address)
    if found & conf.current().recipients.blocked_exchangers:
        raise messaging.MessageNotAccepted(kind)


def _ask_service(address: str) -> None:
    configured = conf.current().recipients
    if not configured.service_url:
        return
    headers = {name: ", ".join(values) for name, values in configured.service_headers.items()}
    try:
        reply = http.send(
            "POST",
            configured.service_url,
            timeout=_PATIENCE,
            max_bytes=_LONGEST_VERDICT,
            truncate=True,
            headers=headers,
            json={"email": address},
        )
        verdict = msgspec.json.decode(reply.body, type=_Verdict)
    except (http.Unreachable, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.warning("the service for checking email addresses gave no verdict", extra={"error": str(error)})
        return
    if verdict.valid is False and 200 <= reply.status <= 299:
        raise errors.EmailAddressInvalid(address)
