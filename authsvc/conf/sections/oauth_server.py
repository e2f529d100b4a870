"""Settings of this service as OAuth 2.1 and OpenID Connect provider for other applications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.sections.pages import Pages
from authsvc.conf.sections.tokens import Jwt, signs_with_shared_secret
from authsvc.conf.value_types import BOOLEAN, DURATION, TEXT

SCOPES = ("openid", "profile", "email", "phone", "offline_access")
"""Supported scopes, in the order of the discovery documents."""
_MIN_TTL = timedelta(seconds=30)
_MAX_TTL = timedelta(hours=24)


def _check_ttl(ttl: timedelta) -> str:
    return "" if _MIN_TTL <= ttl <= _MAX_TTL else "must be between 30s and 24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthServer:
    enabled: bool = setting(
        "AUTH_OAUTH_SERVER_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Other applications can sign their users in through this service (OAuth 2.1, OpenID Connect).",
    )
    allow_dynamic_registration: bool = setting(
        "AUTH_OAUTH_SERVER_ALLOW_DYNAMIC_REGISTRATION",
        type=BOOLEAN,
        default=False,
        help="Applications can register themselves, without an administrator (RFC 7591).",
    )
    authorization_path: str = setting(
        "AUTH_OAUTH_SERVER_AUTHORIZATION_PATH",
        type=TEXT,
        default="",
        help="Path of a consent page of your own, below AUTH_SITE_URL; empty = the hosted page `/oauth/consent`, if"
        " AUTH_PAGES_ENABLED is set, else authorization requests fail.",
        example="/oauth/consent",
    )
    authorization_ttl: timedelta = setting(
        "AUTH_OAUTH_SERVER_AUTHORIZATION_TTL",
        type=DURATION,
        default=timedelta(minutes=10),
        check=_check_ttl,
        help="Time from the authorization request to the exchange of its code, 30s to 24h.",
    )
    default_scope: str = setting(
        "AUTH_OAUTH_SERVER_DEFAULT_SCOPE",
        type=TEXT,
        default="email",
        help="Scope of authorization requests that name none; several are separated by spaces.",
    )
    allow_plain_pkce: bool = setting(
        "AUTH_OAUTH_SERVER_ALLOW_PLAIN_PKCE",
        type=BOOLEAN,
        default=True,
        help="Accept the code challenge method `plain`; without it only `S256` (RFC 9700 §2.1.1).",
    )
    restrict_client_tokens: bool = setting(
        "AUTH_OAUTH_SERVER_RESTRICT_CLIENT_TOKENS",
        type=BOOLEAN,
        default=True,
        help="Access tokens of applications can read the user and end their own session, and change nothing.",
    )


def check_oauth_server(server: OAuthServer, jwt: Jwt, pages: Pages, report: SettingsReport) -> None:
    """Warn about settings with which applications cannot sign users in. The service starts with them."""
    if not server.enabled:
        return
    if not jwt.issuer:
        report.warning(
            "AUTH_JWT_ISSUER", "the OAuth server is enabled without an issuer: access tokens have no `iss` claim"
        )
    elif not jwt.issuer.startswith(("https://", "http://")):
        report.warning(
            "AUTH_JWT_ISSUER",
            "the OAuth server is enabled with an issuer that is no URL: clients cannot find its discovery document; set"
            " it to the URL of the service, as AUTH_API_EXTERNAL_URL",
        )
    if signs_with_shared_secret(jwt):
        report.warning(
            "AUTH_JWT_KEYS",
            "the OAuth server is enabled with an HS256 signing key: it cannot issue ID tokens, so it refuses the scope"
            " openid; set AUTH_JWT_KEYS to the output of manage.py generate_keys",
        )
    if not server.authorization_path and not pages.enabled:
        report.warning(
            "AUTH_OAUTH_SERVER_AUTHORIZATION_PATH",
            "the OAuth server is enabled without a consent page: authorization requests fail; set AUTH_PAGES_ENABLED",
        )
    if unknown := [scope for scope in server.default_scope.split() if scope not in SCOPES]:
        report.warning(
            "AUTH_OAUTH_SERVER_DEFAULT_SCOPE",
            f"unsupported scopes: {' '.join(unknown)}; authorization requests without a scope fail",
        )
