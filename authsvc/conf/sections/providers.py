"""Settings of sign-in through external providers."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting
from authsvc.conf.report import SettingsReport
from authsvc.conf.types import Secret
from authsvc.conf.value_types import (
    ASSIGNMENTS,
    BOOLEAN,
    COUNT,
    DURATION,
    LIST,
    OPTIONAL_HTTP_URL,
    PLAIN_URL,
    SECRET,
    TEXT,
)

PROVIDERS = (
    "apple", "azure", "bitbucket", "discord", "facebook", "figma", "fly", "github", "gitlab", "google", "kakao",
    "keycloak", "linkedin", "linkedin_oidc", "notion", "slack", "slack_oidc", "snapchat", "spotify", "twitch",
    "twitter", "vercel_marketplace", "workos", "x", "zoom",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    enabled: bool = setting(
        "ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-in through this provider.",
        example="true",
    )
    client_ids: tuple[str, ...] = setting(
        "CLIENT_ID",
        type=LIST,
        default=(),
        help="Client id. Further ids are additional audiences of ID tokens.",
    )
    secret: Secret = setting("SECRET", type=SECRET, default=Secret(""), help="Client secret.")
    redirect_uri: str = setting(
        "REDIRECT_URI",
        type=TEXT,
        default="",
        help="Callback URL that is registered with the provider.",
        example="https://auth.example.com/callback",
    )
    url: str = setting(
        "URL",
        type=PLAIN_URL,
        default="",
        help="Base URL of the provider; empty = its public one. Required for Keycloak.",
    )
    email_optional: bool = setting(
        "EMAIL_OPTIONAL",
        type=BOOLEAN,
        default=False,
        help="Users without an email address may sign in.",
    )
    skip_nonce_check: bool = setting(
        "SKIP_NONCE_CHECK",
        type=BOOLEAN,
        default=False,
        help="Accept ID tokens without comparing their nonce.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Settings for all providers."""

    redirect_url: str = setting(
        "AUTH_EXTERNAL_REDIRECT_URL",
        "AUTH_EXTERNAL_REDIRECTURL",
        type=TEXT,
        default="",
        help="Redirect target after every callback, instead of the requested one; empty = the requested one.",
    )
    ios_bundle_id: str = setting(
        "AUTH_EXTERNAL_IOS_BUNDLE_ID",
        type=TEXT,
        default="",
        help="Additional audience of ID tokens of Apple.",
    )
    id_token_issuers: tuple[str, ...] = setting(
        "AUTH_EXTERNAL_ALLOWED_ID_TOKEN_ISSUERS",
        type=LIST,
        default=("https://appleid.apple.com", "https://accounts.google.com"),
        help="Issuers whose ID tokens are accepted for the audiences of `AUTH_EXTERNAL_ALLOWED_ID_TOKEN_AUDIENCES`.",
    )
    id_token_audiences: tuple[str, ...] = setting(
        "AUTH_EXTERNAL_ALLOWED_ID_TOKEN_AUDIENCES",
        type=LIST,
        default=(),
        help="`issuer=audience`: client ids whose ID tokens of an allowed issuer are accepted.",
        example="https://login.example.com=app-1,https://login.example.com=app-2",
    )
    workos_organizations: tuple[str, ...] = setting(
        "AUTH_EXTERNAL_WORKOS_ORGANIZATIONS",
        type=LIST,
        default=(),
        help="Organisations of WorkOS that may sign in, with verified addresses; empty = all, with unverified ones.",
        example="org_01EHWNCE74X7JSDV0X3SZ3KJNY",
    )
    workos_connections: tuple[str, ...] = setting(
        "AUTH_EXTERNAL_WORKOS_CONNECTIONS",
        type=LIST,
        default=(),
        help="Connections of WorkOS that may sign in besides these organisations.",
        example="conn_01E4ZCR3C56J083X43JQXF3JK5",
    )
    discovery_max_age: timedelta = setting(
        "AUTH_EXTERNAL_OIDC_PROVIDER_CACHE_TTL",
        type=DURATION,
        default=timedelta(hours=1),
        minimum=timedelta(),
        help="Time for which discovery documents and keys of providers are cached.",
    )
    linking_domains: Mapping[str, str] = setting(
        "AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS",
        type=ASSIGNMENTS,
        default={},
        help="`provider=domain`: identities are linked by address within a domain; other providers are in `default`.",
        example="github=social,custom:acme=staff",
    )
    providers_with_own_domain: tuple[str, ...] = setting(
        "AUTH_EXPERIMENTAL_PROVIDERS_WITH_OWN_LINKING_DOMAIN",
        type=LIST,
        default=(),
        deprecation="DEPRECATION NOTICE: {} is replaced by AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS",
        help="Providers that are in a linking domain of the same name.",
    )
    flow_binding_enabled: bool = setting(
        "AUTH_EXTERNAL_FLOW_BINDING_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Accept a callback only from the browser that started the flow, identified by a cookie.",
    )

    def audiences_of(self, issuer: str) -> tuple[str, ...]:
        """The configured audiences of ID tokens of an allowed issuer."""
        pairs = [entry.partition("=") for entry in self.id_token_audiences]
        return tuple(audience for name, _, audience in pairs if name == issuer and audience)

    @property
    def domain_by_provider(self) -> Mapping[str, str]:
        """Provider → linking domain, of those that are not in `default`."""
        return {**{name: name for name in self.providers_with_own_domain}, **self.linking_domains}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    expiry: timedelta = setting(
        "AUTH_EXTERNAL_FLOW_STATE_EXPIRY_DURATION",
        type=DURATION,
        default=timedelta(seconds=300),
        minimum=timedelta(seconds=300),
        help="Lifetime of PKCE codes and OAuth state.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomProviders:
    """Providers that administrators define while the service runs."""

    enabled: bool = setting(
        "AUTH_CUSTOM_OAUTH_ENABLED",
        type=BOOLEAN,
        default=True,
        help="Administrators may define providers while the service runs.",
    )
    max_providers: int = setting(
        "AUTH_CUSTOM_OAUTH_MAX_PROVIDERS",
        type=COUNT,
        default=0,
        unit="providers",
        help="Maximum of defined providers; 0 = no limit.",
    )
    external_url: str = setting(
        "AUTH_CUSTOM_OAUTH_EXTERNAL_URL",
        type=OPTIONAL_HTTP_URL,
        default="",
        help="URL of this service in their callback; empty = the external URL of the API.",
    )
    private_networks_enabled: bool = setting(
        "AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Custom providers may be in the network of the operator.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallets:
    """Sign-in with a message that a wallet signs."""

    ethereum_enabled: bool = setting(
        "AUTH_EXTERNAL_WEB3_ETHEREUM_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-in with Ethereum wallets (EIP-4361). Needs the extra `wallets`.",
    )
    ethereum_max_age: timedelta = setting(
        "AUTH_EXTERNAL_WEB3_ETHEREUM_MAXIMUM_VALIDITY_DURATION",
        type=DURATION,
        default=timedelta(minutes=10),
        minimum=timedelta(),
        help="Time after `Issued At` in which a signed message is accepted.",
    )
    solana_enabled: bool = setting(
        "AUTH_EXTERNAL_WEB3_SOLANA_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Sign-in with Solana wallets (Sign In With Solana).",
    )
    solana_max_age: timedelta = setting(
        "AUTH_EXTERNAL_WEB3_SOLANA_MAXIMUM_VALIDITY_DURATION",
        type=DURATION,
        default=timedelta(minutes=10),
        minimum=timedelta(),
        help="Time after `Issued At` in which a signed message is accepted.",
    )


def check_wallets(wallets: Wallets, report: SettingsReport) -> None:
    if wallets.ethereum_enabled and not all(map(importlib.util.find_spec, ("coincurve", "Crypto"))):
        error = "needs the extra wallets: pip install -r requirements.server.lock"
        report.error("AUTH_EXTERNAL_WEB3_ETHEREUM_ENABLED", error)


_BUILT_IN_ISSUERS = frozenset({"https://appleid.apple.com", "https://account.apple.com", "https://accounts.google.com"})


def check_id_token_issuers(federation: Federation, report: SettingsReport) -> None:
    for issuer in federation.id_token_issuers:
        if issuer not in _BUILT_IN_ISSUERS and not federation.audiences_of(issuer):
            help = f"no ID token of {issuer} is accepted: add {issuer}=<client id>"
            report.warning("AUTH_EXTERNAL_ALLOWED_ID_TOKEN_AUDIENCES", help)


def check_providers(providers: Mapping[str, Provider], report: SettingsReport) -> None:
    for name, provider in providers.items():
        prefix = f"AUTH_EXTERNAL_{name.upper()}"
        required = {
            f"{prefix}_CLIENT_ID": provider.client_ids,
            f"{prefix}_SECRET": provider.secret,
            f"{prefix}_REDIRECT_URI": provider.redirect_uri,
        }
        if name == "keycloak":
            required[f"{prefix}_URL"] = provider.url
        for variable in (variable for variable, value in required.items() if provider.enabled and not value):
            report.missing(variable, help=f"set it, or {prefix}_ENABLED=false")
        if provider.url and name in ("apple", "google"):
            report.warning(f"{prefix}_URL", "the provider's address is fixed, the setting is ignored")
