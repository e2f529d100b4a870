"""Looks up the mail exchangers of a host in the DNS. A failed look-up counts in favour of the host."""

from __future__ import annotations

import logging
import time

import dns.exception
import dns.rdatatype
import dns.resolver

logger = logging.getLogger(__name__)

# Large mail providers, for which no look-up is needed.
_WELL_KNOWN = frozenset(
    {
        "aol.com", "att.net", "bellsouth.net", "comcast.net", "cox.net", "gmail.com", "hotmail.co.uk", "hotmail.com",
        "icloud.com", "live.com", "mail.ru", "me.com", "msn.com", "outlook.com", "sbcglobal.net", "verizon.net",
        "yahoo.co.in", "yahoo.co.uk", "yahoo.com",
    }
)  # fmt: skip


def mail_exchangers(host: str, *, deadline: float) -> frozenset[str] | None:
    """The names of the mail exchangers of `host`, or its own addresses where it names none (RFC 5321 §5.1).

    In lower case, without a trailing dot. None when the DNS has no such host, or no mail exchanger and no address for
    it; empty when the look-up fails or is not needed. `deadline` is a value of `time.monotonic`.
    """
    if host in _WELL_KNOWN:
        return frozenset()
    if "." not in host:
        return None
    try:
        exchangers = _look_up(host, dns.rdatatype.MX, deadline=deadline)
        if exchangers:
            return exchangers
        return (
            _look_up(host, dns.rdatatype.A, deadline=deadline) | _look_up(host, dns.rdatatype.AAAA, deadline=deadline)
            or None
        )
    except dns.resolver.NXDOMAIN:
        return None
    except (dns.exception.DNSException, OSError) as error:
        logger.info("the mail host cannot be looked up", extra={"host": host, "error": type(error).__name__})
        return frozenset()


def _look_up(host: str, kind: dns.rdatatype.RdataType, *, deadline: float) -> frozenset[str]:
    """The records of one type, which may be none. Raises NXDOMAIN or another DNSException."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise dns.exception.Timeout
    answer = dns.resolver.resolve(f"{host}.", kind, lifetime=remaining, search=False, raise_on_no_answer=False)
    records = answer.rrset or ()
    if kind == dns.rdatatype.MX:
        return frozenset(str(record.exchange).lower().removesuffix(".") for record in records)
    return frozenset(record.address for record in records)
