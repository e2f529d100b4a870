"""Rules for redirect URIs: which ones a client can register, and which one a request may name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

MAX_LENGTH = 2048
"""Bytes."""

_FORBIDDEN_SCHEMES = frozenset({"javascript", "data", "file", "vbscript", "about", "blob"})
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
# Browsers drop or rewrite white space, backslashes and control characters, so a URI with them could lead elsewhere.
_PRINTABLE = re.compile(r"[!-\[\]-~]+")
_LOOPBACK = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?([/?].*)?", re.DOTALL)


def find_refusal(uri: str) -> str:
    """The reason why a client cannot register a redirect URI; empty if it can."""
    if not uri:
        return "redirect URI cannot be empty"
    if len(uri.encode(errors="replace")) > MAX_LENGTH:
        return "redirect URI too long"
    try:
        parts = urlsplit(uri)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "invalid URL format"
    if not _PRINTABLE.fullmatch(uri):
        return "invalid URL format"
    scheme = parts.scheme.lower()
    if scheme in _FORBIDDEN_SCHEMES:
        return f"scheme '{scheme}' is not allowed for security reasons"
    if not scheme or not host:
        return "must have scheme and host"
    if scheme == "http" and host not in _LOOPBACK_HOSTS:
        return "HTTP scheme only allowed for localhost"
    if "#" in uri:
        return "fragment not allowed in redirect URI"
    if "@" in parts.netloc:
        return "userinfo not allowed in redirect URI"
    if "," in uri:
        return "comma not allowed in redirect URI"
    return ""


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """True if a requested redirect URI equals a registered one.

    The port of a loopback URI may differ, because a native app gets one from its operating system (RFC 8252 §7.3).
    """
    portless = _without_loopback_port(uri)
    return any(
        uri == other or (portless is not None and portless == _without_loopback_port(other)) for other in registered
    )


def _without_loopback_port(uri: str) -> str | None:
    """A loopback URI without its port; None for any other URI."""
    match = _LOOPBACK.fullmatch(uri)
    return f"{match[1]}{match[2] or ''}" if match else None
