"""Authentication: managers that put credentials on requests, and the mappings that describe them."""

from __future__ import annotations

from catalogclient.auth.base import AuthManager, TokenAuth
from catalogclient.auth.choice import AuthConfig
from catalogclient.auth.entra import EntraAuth
from catalogclient.auth.google import GoogleAuth
from catalogclient.auth.oauth2 import OAuth2ClientCredentials, OAuth2TokenExchange
from catalogclient.auth.sigv4 import SigV4Auth
from catalogclient.auth.static import BasicAuth, BearerAuth, CustomAuth, HeaderAuth, NoAuth
from catalogclient.messages import PreparedRequest

__all__ = [
    "AuthConfig",
    "AuthManager",
    "BasicAuth",
    "BearerAuth",
    "CustomAuth",
    "EntraAuth",
    "GoogleAuth",
    "HeaderAuth",
    "NoAuth",
    "OAuth2ClientCredentials",
    "OAuth2TokenExchange",
    "PreparedRequest",
    "SigV4Auth",
    "TokenAuth",
]
