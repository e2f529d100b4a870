"""Asks haveibeenpwned.com whether a password is known from a breach, by the first five hex digits of its hash."""

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
from authsvc.outgoing import http

logger = logging.getLogger(__name__)

_RANGES = "https://api.pwnedpasswords.com/range/"
_PREFIX = 5
_LONGEST_RANGE = 4 * 1_048_576
_TIMEOUT = timedelta(seconds=5)
# What somebody waits for advice about a password that signs them in all the same.
_PATIENCE = timedelta(seconds=1)
_PAUSE_SECONDS = 30.0

# Padding, which hides how many there are, has a count of zero.
_KNOWN = re.compile(rb"^([0-9A-F]{35}):0*[1-9][0-9]*[ \t\r]*$", re.MULTILINE)

# Calls run beside the requests that wait for them, so that one who gives up does not take it from the others.
_calls = ThreadPoolExecutor(max_workers=8, thread_name_prefix="breaches")
_under_way: dict[str, Future[frozenset[bytes]]] = {}
_joining = Lock()
_advise_again_at = 0.0


def is_breached(password: str) -> bool:
    """Whether a password that somebody wants to use is known from a breach; False while the look-up is off.

    Raises BreachLookupFailed when nobody could say and the operator wants such passwords refused. Takes up to 5
    seconds: never to be called with a transaction open.
    """
    try:
        return _look_up(password, within=_TIMEOUT)
    except _LookupFailed as error:
        if conf.current().breaches.fail_closed:
            raise BreachLookupFailed from error
        message = "Unable to perform password strength check with HaveIBeenPwned.org, pwned passwords are being allowed"
        logger.warning(message, extra={"error": str(error)})
        return False


def is_known_breached(password: str) -> bool:
    """The same of a password that was right, as advice: within a second, and False when nobody could say.

    After a failure nobody waits for advice for half a minute.
    """
    global _advise_again_at
    if time.monotonic() < _advise_again_at:
        return False
    try:
        return _look_up(password, within=_PATIENCE)
    except _LookupFailed as error:
        _advise_again_at = time.monotonic() + _PAUSE_SECONDS
        logger.warning("the password of a sign-in was not looked up among breached ones", extra={"error": str(error)})
        return False


class _LookupFailed(Exception):
    """The service gave no list in time."""


def _look_up(password: str, *, within: timedelta) -> bool:
    if not conf.current().breaches.enabled:
        return False
    digest = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    remembered = _memory()
    if remembered is not None and digest in remembered:
        return True
    try:
        return digest in _call_for(digest.hex()[:_PREFIX].upper()).result(timeout=within.total_seconds())
    except TimeoutError:
        raise _LookupFailed("timed out") from None


def _call_for(prefix: str) -> Future[frozenset[bytes]]:
    """The call under way for a range, or a new one."""
    with _joining:
        call = _under_way.get(prefix)
        if call is None:
            deadline = time.monotonic() + _TIMEOUT.total_seconds()
            call = _under_way[prefix] = _calls.submit(_range, prefix, deadline=deadline)
            call.add_done_callback(lambda _: _under_way.pop(prefix, None))
    return call


def _range(prefix: str, *, deadline: float) -> frozenset[bytes]:
    """The SHA-1 digests of all known passwords whose digest begins with these hex digits. Raises _NobodyKnows."""
    left = timedelta(seconds=deadline - time.monotonic())
    if left <= timedelta():
        raise _LookupFailed("too many calls at once")  # nobody waits for it any more
    headers = {"User-Agent": conf.current().breaches.user_agent}
    try:
        reply = http.send("GET", _RANGES + prefix, timeout=left, max_bytes=_LONGEST_RANGE, headers=headers)
    except http.Unreachable as error:
        raise _LookupFailed(str(error)) from None
    if reply.status != 200:
        raise _LookupFailed(f"answered with status {reply.status}")
    found = frozenset(bytes.fromhex(prefix + suffix.decode()) for suffix in _KNOWN.findall(reply.body))
    remembered = _memory()
    if remembered is not None:
        remembered.add(found)
    return found


def _memory() -> BloomFilter | None:
    configured = conf.current().breaches
    if not configured.bloom_enabled:
        return None
    return _bloom(configured.bloom_items, configured.bloom_false_positives)


@lru_cache(maxsize=1)
def _bloom(items: int, false_positives: float) -> BloomFilter:
    return BloomFilter(items=items, false_positives=false_positives)
