"""Authentication managers, which add credentials to requests, and the mappings that configure them."""

from __future__ import annotations

from catalogclient._messages import PreparedRequest
from catalogclient.auth._base import AuthManager, TokenAuth
from catalogclient.auth._config import AuthConfig
from catalogclient.auth._entra import EntraAuth
from catalogclient.auth._google import GoogleAuth
from catalogclient.auth._oauth2 import OAuth2ClientCredentials, OAuth2TokenExchange
from catalogclient.auth._sigv4 import SigV4Auth
from catalogclient.auth._static import BasicAuth, BearerAuth, CustomAuth, HeaderAuth, NoAuth

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
