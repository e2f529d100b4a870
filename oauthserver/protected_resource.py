"""Metadata of this service as a protected resource (RFC 9728): of its API, and of the UserInfo endpoint."""

from __future__ import annotations

from urllib.parse import urlsplit

from oauthserver import scopes
from tokens.jwt import signing_keys

USERINFO = "oauth/userinfo"
_WELL_KNOWN = ".well-known/oauth-protected-resource"


def build(path: str = "") -> dict[str, object] | None:
    """The metadata of the resource whose path follows the well-known one; None for an unknown resource.

    Below a path, a proxy may pass on the paths that begin at the root of the host (RFC 9728 §3.1).
    """
    base = signing_keys.issuer_base()
    own_path = urlsplit(base).path.strip("/")
    if path == own_path:
        path = ""
    elif own_path:
        path = path.removeprefix(f"{own_path}/")
    if path not in ("", USERINFO):
        return None
    return {
        "resource": f"{base}/{path}" if path else base,
        "authorization_servers": [signing_keys.issuer()],
        "jwks_uri": f"{base}/.well-known/jwks.json",
        "scopes_supported": scopes.supported(),
        "bearer_methods_supported": ["header", "body"] if path else ["header"],
    }


def metadata_url(path: str) -> str:
    """The URL of the metadata of a resource, for the header `WWW-Authenticate` (RFC 9728 §5.1)."""
    return f"{signing_keys.issuer_base()}/{_WELL_KNOWN}/{path}"
