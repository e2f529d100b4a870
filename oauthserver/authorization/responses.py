"""Redirects to clients: authorization responses with `iss` (RFC 9207), and the origins of consent pages."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import ada_url

from authsvc.security import redirects
from tokens.jwt import signing_keys


def code_url(redirect_uri: str, *, code: str, state: str | None) -> str:
    """The redirect with a code (RFC 6749 §4.1.2)."""
    return _response_url(redirect_uri, state, code=code)


def error_url(redirect_uri: str, *, error: str, description: str, state: str | None) -> str:
    """The redirect with an error (RFC 6749 §4.1.2.1)."""
    return _response_url(redirect_uri, state, error=error, error_description=description)


def is_serialized_origin(text: str) -> bool:
    """True for an http(s) origin as browsers write it (RFC 6454 §6.2)."""
    try:
        parsed = ada_url.URL(text)
    except ValueError:
        return False
    return parsed.protocol in ("http:", "https:") and parsed.origin == text


def is_loopback_ip(origin: str) -> bool:
    try:
        return ip_address(urlsplit(origin).hostname or "").is_loopback
    except ValueError:
        return False


def _response_url(redirect_uri: str, state: str | None, **values: str) -> str:
    # Clients of several authorization servers compare `iss`, so that one server cannot pass off a code as another's.
    parameters = {**values, "iss": signing_keys.issuer()}
    return redirects.with_query(redirect_uri, {**parameters, "state": state} if state else parameters)
