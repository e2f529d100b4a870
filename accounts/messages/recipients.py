"""Checks the recipients of emails: the operator's allow list, and whether an address can receive mail.

Uses the network: call these functions outside a transaction.
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
from authsvc.messaging import EmailType, Sender
from authsvc.outgoing import bulkhead, http

logger = logging.getLogger(__name__)

_TIMEOUT = timedelta(seconds=3)
_MAX_RESPONSE_BYTES = 32

# RFC 5322 §3.4.1 without quoting, comments and literals.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_ADDRESS = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_ATOM}(?:\.{_ATOM})*")
_LABEL = re.compile(r"\+[^@]*(?=@)")

# Addresses and hosts that are typed in place of a real address, or by mistake.
_FAKE_ADDRESSES = frozenset({"test@gmail.com", "example@gmail.com", "someone@gmail.com", "test@email.com"})
_FAKE_HOSTS = frozenset(
    {
        "test", "example", "invalid", "local", "localhost", "test.com", "example.com", "example.net", "example.org",
        "gamil.com", "gamai.com", "anonymous.com", "email.com",
    }
)  # fmt: skip
_RESERVED_DOMAINS = (".test", ".example", ".invalid", ".local", ".localhost")
_MIN_GMAIL_NAME = 6


class _Validation(msgspec.Struct, frozen=True):
    valid: bool | None = None


def reserve_email(*addresses: str, type: EmailType, sender: Sender) -> None:
    """Check the recipients of one email of this type, and count it against the quota and the sender's share.

    Raises EmailAddressNotAuthorized, EmailRateExceeded, EmailAddressInvalid or MessageNotAccepted, in this order; not
    the last two if a hook delivers emails.
    """
    _check(*addresses, type=type, sender=sender, quota=messaging.consume_email_quota)


def check_email(*addresses: str, type: EmailType, sender: Sender) -> None:
    """Raise the errors of `reserve_email`, equally fast, for a request that sends nothing. Counts only the share."""
    _check(*addresses, type=type, sender=sender, quota=messaging.check_email_quota)


def check_allowlist(address: str) -> None:
    """Raises EmailAddressNotAuthorized when an allow list exists without the address, with and without `+label`."""
    allowed = {entry.strip().lower() for entry in conf.current().recipients.authorized_addresses}
    if allowed and allowed.isdisjoint({address.lower(), _LABEL.sub("", address.lower())}):
        raise errors.EmailAddressNotAuthorized(address)


def validate_address(address: str, *, type: EmailType) -> None:
    """Check, as far as is configured, that an address can receive mail. Takes at most 3 seconds.

    Raises EmailAddressInvalid, and MessageNotAccepted when the operator has blocked the mail exchanger of the host. A
    check that fails or times out counts in favour of the address.
    """
    configured = conf.current().recipients
    deadline = time.monotonic() + _TIMEOUT.total_seconds()
    if not configured.extended_validation:
        _check_service(address)
        return
    _check_text(address)
    if not configured.service_url:
        _check_host(address, type=type, deadline=deadline)
        return
    with bulkhead.wait_for("dns"), ThreadPoolExecutor(max_workers=1) as executor:
        host_check = executor.submit(_check_host, address, type=type, deadline=deadline)
        _check_service(address)
    host_check.result()


def _check(*addresses: str, type: EmailType, sender: Sender, quota: Callable[[Sender], None]) -> None:
    for address in addresses:
        check_allowlist(address)
    quota(sender)
    if messaging.is_hooked("email"):
        return  # the hook chooses the recipient
    for address in addresses:
        validate_address(address, type=type)


def _check_text(address: str) -> None:
    lower = address.lower()
    name, _, host = lower.rpartition("@")
    if (
        not _ADDRESS.fullmatch(address)
        or lower in _FAKE_ADDRESSES
        or host in _FAKE_HOSTS
        or host.endswith(_RESERVED_DOMAINS)
        or (host == "gmail.com" and len(name) < _MIN_GMAIL_NAME)
    ):
        raise errors.EmailAddressInvalid(address)


def _check_host(address: str, *, type: EmailType, deadline: float) -> None:
    with bulkhead.wait_for("dns"):
        exchangers = mail_hosts.mail_exchangers(address.lower().rpartition("@")[2], deadline=deadline)
    if exchangers is None:
        raise errors.EmailAddressInvalid(address)
    if exchangers & conf.current().recipients.blocked_exchangers:
        raise messaging.MessageNotAccepted(type)


def _check_service(address: str) -> None:
    """Ask the configured service. Raises EmailAddressInvalid; a service that does not answer accepts the address."""
    configured = conf.current().recipients
    if not configured.service_url:
        return
    headers = {name: ", ".join(values) for name, values in configured.service_headers.items()}
    try:
        response = http.send(
            "POST",
            configured.service_url,
            timeout=_TIMEOUT,
            max_bytes=_MAX_RESPONSE_BYTES,
            truncate=True,
            headers=headers,
            json={"email": address},
        )
        validation = msgspec.json.decode(response.body, type=_Validation)
    except (http.Unreachable, msgspec.MsgspecError, UnicodeDecodeError) as error:
        logger.warning("the email validation service gave no response", extra={"error": str(error)})
        return
    if validation.valid is False and 200 <= response.status <= 299:
        raise errors.EmailAddressInvalid(address)
