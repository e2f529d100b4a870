"""Scopes: the supported ones, and comparison of granted and requested ones."""

from __future__ import annotations

from authsvc import conf
from tokens.jwt import signing_keys

OPENID = "openid"
PROFILE = "profile"
EMAIL = "email"
PHONE = "phone"
OFFLINE_ACCESS = "offline_access"


def parse(text: str) -> list[str]:
    """The scopes of a text, each once, in their order. Only spaces separate scopes (RFC 6749 §3.3)."""
    return list(dict.fromkeys(scope for scope in text.split(" ") if scope))


def normalize(text: str) -> str:
    """The scopes of a text, each once, separated by single spaces."""
    return " ".join(parse(text))


def covers(granted: str, requested: str) -> bool:
    """True if every requested scope was granted."""
    return set(parse(requested)) <= set(parse(granted))


def supported() -> list[str]:
    """The supported scopes. Without an asymmetric signing key there are no ID tokens, and no scope `openid`."""
    return [scope for scope in conf.OAUTH_SCOPES if scope != OPENID or can_issue_id_tokens()]


def can_issue_id_tokens() -> bool:
    """False for an HS256 signing key, whose signatures only holders of the secret can verify."""
    return signing_keys.current().signing.alg != signing_keys.HS256
