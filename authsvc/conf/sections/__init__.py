"""All settings: one frozen dataclass per section, and the rules that hold between settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from authsvc.conf.declaration import section, section_by_key
from authsvc.conf.report import Notice, SettingsReport
from authsvc.conf.sections import database as database_section
from authsvc.conf.sections.database import Database, IndexWorker, check_encryption, check_pool_size
from authsvc.conf.sections.hooks import HOOKS, HookCalls, HookSettings, check_hooks
from authsvc.conf.sections.languages import Languages, check_languages
from authsvc.conf.sections.mail import Mailer, Recipients, Smtp, check_mail, check_recipients
from authsvc.conf.sections.mfa import Mfa, Passkeys, WebAuthn, check_webauthn
from authsvc.conf.sections.oauth_server import OAuthServer, check_oauth_server
from authsvc.conf.sections.observability import Audit, Logging, Telemetry
from authsvc.conf.sections.pages import Pages, check_pages
from authsvc.conf.sections.providers import (
    PROVIDERS,
    CustomProviders,
    Federation,
    Flows,
    Provider,
    Wallets,
    check_id_token_issuers,
    check_providers,
    check_wallets,
)
from authsvc.conf.sections.service import Api, Console, Experimental, Reloading, Site
from authsvc.conf.sections.sign_up import (
    Breaches,
    Captcha,
    Limits,
    Metadata,
    OneTimeCodes,
    Passwords,
    Signup,
    check_breaches,
    check_captcha,
)
from authsvc.conf.sections.sms import Sms, check_sms
from authsvc.conf.sections.tokens import Jwt, Refresh, Sessions, check_refresh_tokens, check_signing_keys
from authsvc.conf.sections.webhooks import Webhooks


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """The whole configuration; read at start and replaced as a whole on reload."""

    site: Site = section(Site, "Site")
    api: Api = section(Api, "API")
    database: Database = section(Database, "Database")
    jwt: Jwt = section(Jwt, "Tokens")
    signup: Signup = section(Signup, "Sign-up and sign-in")
    metadata: Metadata = section(Metadata, "Metadata")
    passwords: Passwords = section(Passwords, "Passwords")
    breaches: Breaches = section(Breaches, "Passwords known from breaches")
    refresh: Refresh = section(Refresh, "Refresh tokens")
    sessions: Sessions = section(Sessions, "Sessions")
    codes: OneTimeCodes = section(OneTimeCodes, "One-time codes")
    smtp: Smtp = section(Smtp, "SMTP")
    mailer: Mailer = section(Mailer, "Email")
    recipients: Recipients = section(Recipients, "Recipients of email")
    sms: Sms = section(Sms, "SMS")
    languages: Languages = section(Languages, "Languages")
    mfa: Mfa = section(Mfa, "Second factors")
    passkeys: Passkeys = section(Passkeys, "Passkeys")
    webauthn: WebAuthn = section(WebAuthn, "WebAuthn")
    captcha: Captcha = section(Captcha, "Captcha")
    limits: Limits = section(Limits, "Rate limits")
    providers: Mapping[str, Provider] = section_by_key(
        Provider, "Providers", prefix="AUTH_EXTERNAL_<PROVIDER>_", keys=PROVIDERS
    )
    federation: Federation = section(Federation, "All providers")
    custom_providers: CustomProviders = section(CustomProviders, "Custom providers")
    wallets: Wallets = section(Wallets, "Wallets")
    flows: Flows = section(Flows, "Flows")
    oauth_server: OAuthServer = section(OAuthServer, "OAuth server")
    hooks: Mapping[str, HookSettings] = section_by_key(HookSettings, "Hooks", prefix="AUTH_HOOK_<HOOK>_", keys=HOOKS)
    hook_calls: HookCalls = section(HookCalls, "All hooks")
    webhooks: Webhooks = section(Webhooks, "Webhooks")
    pages: Pages = section(Pages, "Hosted pages")
    console: Console = section(Console, "Operator console")
    logging: Logging = section(Logging, "Logging")
    audit: Audit = section(Audit, "Audit trail")
    telemetry: Telemetry = section(Telemetry, "Metrics and traces")
    index_worker: IndexWorker = section(IndexWorker, "Search indexes")
    reloading: Reloading = section(Reloading, "Reloading")
    experimental: Experimental = section(Experimental, "Experimental")
    notices: tuple[Notice, ...] = ()
    """Log lines about these settings, written at start and after a reload."""
    published_secrets: tuple[str, ...] = ()
    """Variables whose secret is an example from public documents."""

    @property
    def has_api_page(self) -> bool:
        """True if the server helps developers: with a page of its API, and hints in error responses."""
        return self.api.docs_enabled or self.mailer.dev_inbox_enabled

    @property
    def background_connections(self) -> int:
        """Maximum of database connections of a serving process beside one for each of its threads."""
        count = database_section.PROBE_CONNECTIONS
        if self.telemetry.metrics:
            count += database_section.METRICS_CONNECTIONS
        if self.mailer.worker_enabled:
            count += database_section.WORKER_CONNECTIONS
            if self.index_worker.is_on:
                count += database_section.INDEX_CONNECTIONS
            if self.webhooks.enabled:
                count += database_section.WEBHOOK_CONNECTIONS
        return count


def check(config: AuthConfig, report: SettingsReport) -> None:
    """Report every combination of settings that cannot be used or has no effect."""
    check_pool_size(config.database, config.background_connections, report)
    check_encryption(config.database, report)
    check_signing_keys(config.jwt, report)
    check_refresh_tokens(config.refresh, report)
    check_breaches(config.breaches, report)
    check_mail(config.smtp, config.mailer, report, has_hook=config.hooks["send_email"].enabled)
    check_recipients(config.recipients, report)
    check_sms(config.sms, report)
    check_languages(config.languages, report)
    check_pages(config.pages, report)
    check_webauthn(config.webauthn, config.passkeys, config.mfa, report)
    check_captcha(config.captcha, report, has_console=config.console.enabled, has_pages=config.pages.enabled)
    check_providers(config.providers, report)
    check_wallets(config.wallets, report)
    check_id_token_issuers(config.federation, report)
    check_oauth_server(config.oauth_server, config.jwt, config.pages, report)
    check_hooks(config.hooks, report)
