"""Redirects to clients: authorization responses with `iss` (RFC 9207)."""

from __future__ import annotations

from authsvc.security import redirects
from tokens.jwt import signing_keys


def code_url(redirect_uri: str, *, code: str, state: str | None) -> str:
    """The redirect with a code (RFC 6749 §4.1.2)."""
    return _response_url(redirect_uri, state, code=code)


def error_url(redirect_uri: str, *, error: str, description: str, state: str | None) -> str:
    """The redirect with an error (RFC 6749 §4.1.2.1)."""
    return _response_url(redirect_uri, state, error=error, error_description=description)


def _response_url(redirect_uri: str, state: str | None, **values: str) -> str:
    # Clients of several authorization servers compare `iss`, so that one server cannot pass off a code as another's.
    parameters = {**values, "iss": signing_keys.issuer()}
    return redirects.with_query(redirect_uri, {**parameters, "state": state} if state else parameters)
