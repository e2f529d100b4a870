"""Parses URLs from administrators and clients, to which the service will send requests."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

# URL parsers treat other characters, and the backslash, differently.
_PLAIN = re.compile(r"[!-\[\]-~]+")


def split_plain(url: str) -> SplitResult | None:
    """The parts of an absolute URL with a host and without a user name, in printable ASCII; None for another text."""
    if not _PLAIN.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return None
    return parts if is_valid else None
