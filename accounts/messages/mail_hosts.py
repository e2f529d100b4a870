"""Asks the DNS who takes the mail of a host; whatever goes wrong on the way counts as a yes."""

from __future__ import annotations

import logging
import time

import dns.exception
import dns.rdatatype
import dns.resolver

logger = logging.getLogger(__name__)

# Who has most of the world's mailboxes need not be asked for each of them.
_KNOWN = frozenset(
    {
        "aol.com", "att.net", "bellsouth.net", "comcast.net", "cox.net", "gmail.com", "hotmail.co.uk", "hotmail.com",
        "icloud.com", "live.com", "mail.ru", "me.com", "msn.com", "outlook.com", "sbcglobal.net", "verizon.net",
        "yahoo.co.in", "yahoo.co.uk", "yahoo.com",
    }
)  # fmt: skip


def exchangers(host: str, *, deadline: float) -> frozenset[str] | None:
    """The names of the mail exchangers of `host`, or its own addresses where it names none (RFC 5321 §5.1).

    In lower case, without a dot at the end. None when the DNS says that there is no such host or nothing that could
    take mail; empty when it does not say, or is not asked. `deadline` is a moment of `time.monotonic`.
    """
    if host in _KNOWN:
        return frozenset()
    if "." not in host:
        return None
    try:
        named = _ask(host, dns.rdatatype.MX, deadline=deadline)
        if named:
            return named
        return (
            _ask(host, dns.rdatatype.A, deadline=deadline) | _ask(host, dns.rdatatype.AAAA, deadline=deadline) or None
        )
    except dns.resolver.NXDOMAIN:
        return None
    except (dns.exception.DNSException, OSError) as error:
        logger.info("mail host cannot be looked up", extra={"host": host, "error": type(error).__name__})
        return frozenset()


def _ask(host: str, kind: dns.rdatatype.RdataType, *, deadline: float) -> frozenset[str]:
    """The records of one type, none when there are none of it. Raises NXDOMAIN or another DNSException."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise dns.exception.Timeout
    answer = dns.resolver.resolve(f"{host}.", kind, lifetime=left, search=False, raise_on_no_answer=False)
    records = answer.rrset or ()
    if kind == dns.rdatatype.MX:
        return frozenset(str(record.exchange).lower().removesuffix(".") for record in records)
    return frozenset(record.address for record in records)
