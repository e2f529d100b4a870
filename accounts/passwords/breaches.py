"""Looks up passwords at haveibeenpwned.com by the first five hex digits of their SHA-1 hash (k-anonymity)."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import lru_cache
from threading import Lock

from accounts.errors import BreachLookupFailed
from accounts.passwords.bloom_filter import BloomFilter
from authsvc import conf
from authsvc.errors import ServiceBusy
from authsvc.outgoing import bulkhead, http

logger = logging.getLogger(__name__)

_HOST = "api.pwnedpasswords.com"
RANGES_URL = f"https://{_HOST}/range/"
_PREFIX = 5
_MAX_RANGE_BYTES = 4 * 1_048_576
_TIMEOUT = timedelta(seconds=5)
# For the advice after a sign-in, which must not delay it.
_ADVICE_TIMEOUT = timedelta(seconds=1)
_ADVICE_PAUSE_SECONDS = 30.0

# Padding entries, which hide the size of a range, have a count of zero.
_SUFFIXES = re.compile(rb"^([0-9A-F]{35}):0*[1-9][0-9]*[ \t\r]*$", re.MULTILINE)

# Calls run in their own threads, so that a request that times out does not cancel the call for other requests.
_calls = ThreadPoolExecutor(max_workers=8, thread_name_prefix="breaches")
pending_calls: dict[str, Future[frozenset[bytes]]] = {}
_pending_lock = Lock()
no_advice_before = 0.0


def is_breached(password: str) -> bool:
    """True when a new password is known from a breach.

    Raises BreachLookupFailed when the look-up fails and the operator has configured to refuse such passwords. Takes up
    to 5 seconds: call it outside a transaction.
    """
    try:
        return _look_up(password, timeout=_TIMEOUT)
    except _LookupFailed as error:
        if conf.current().breaches.fail_closed:
            raise BreachLookupFailed from error
        message = "Unable to perform password strength check with HaveIBeenPwned.org, pwned passwords are being allowed"
        logger.warning(message, extra={"error": str(error)})
        return False


def is_known_breached(password: str) -> bool:
    """As `is_breached`, for advice after a sign-in: takes at most a second, and a failed look-up counts as False.

    After a failure no look-up is made for 30 seconds.
    """
    global no_advice_before
    if time.monotonic() < no_advice_before:
        return False
    try:
        return _look_up(password, timeout=_ADVICE_TIMEOUT)
    except _LookupFailed as error:
        no_advice_before = time.monotonic() + _ADVICE_PAUSE_SECONDS
        logger.warning("the password of a sign-in was not looked up among breached ones", extra={"error": str(error)})
        return False


class _LookupFailed(Exception):
    """The service did not return a range in time."""


def _look_up(password: str, *, timeout: timedelta) -> bool:
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    cache = _cache()
    if cache is not None and digest in cache:
        return True
    call = _shared_call(digest.hex()[:_PREFIX].upper())
    try:
        with bulkhead.wait_for(_HOST):
            return digest in call.result(timeout=timeout.total_seconds())
    except ServiceBusy:
        raise _LookupFailed("too many requests wait") from None
    except TimeoutError:
        raise _LookupFailed("timed out") from None


def _shared_call(prefix: str) -> Future[frozenset[bytes]]:
    """The pending call for a range, or a new one."""
    with _pending_lock:
        call = pending_calls.get(prefix)
        if call is None:
            deadline = time.monotonic() + _TIMEOUT.total_seconds()
            call = pending_calls[prefix] = _calls.submit(_fetch_range, prefix, deadline=deadline)
            call.add_done_callback(lambda _: pending_calls.pop(prefix, None))
    return call


def _fetch_range(prefix: str, *, deadline: float) -> frozenset[bytes]:
    """The SHA-1 digests of all breached passwords that start with these hex digits. Raises _LookupFailed."""
    remaining = timedelta(seconds=deadline - time.monotonic())
    if remaining <= timedelta():
        raise _LookupFailed("too many calls at once")
    headers = {"User-Agent": conf.current().breaches.user_agent}
    try:
        response = http.send(
            "GET",
            RANGES_URL + prefix,
            timeout=remaining,
            max_bytes=_MAX_RANGE_BYTES,
            headers=headers,
            has_secret_path=True,
        )
    except http.Unreachable as error:
        raise _LookupFailed(str(error)) from None
    if response.status != 200:
        raise _LookupFailed(f"answered with status {response.status}")
    digests = frozenset(bytes.fromhex(prefix + suffix.decode()) for suffix in _SUFFIXES.findall(response.body))
    cache = _cache()
    if cache is not None:
        cache.add(digests)
    return digests


def _cache() -> BloomFilter | None:
    configured = conf.current().breaches
    if not configured.bloom_enabled:
        return None
    return bloom_filter(configured.bloom_items, configured.bloom_false_positives)


@lru_cache(maxsize=1)
def bloom_filter(items: int, false_positives: float) -> BloomFilter:
    return BloomFilter(items=items, false_positives=false_positives)
