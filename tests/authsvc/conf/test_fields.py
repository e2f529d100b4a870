"""Every variable reaches its field; names, defaults and `.env.example`."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from operator import attrgetter

import pytest

from authsvc import conf
from authsvc.conf import dotenv
from authsvc.conf.sections.hooks import HOOKS, HookSettings
from tests.authsvc.conf.variables import KEY, OCT, REQUIRED, ROOT, RSA, load, problems, seconds


def _provider_settings(name: str) -> list[tuple[str, str, str, object]]:
    prefix = f"AUTH_EXTERNAL_{name.upper()}"
    return [
        (f"{prefix}_ENABLED", "true", f"providers.{name}.enabled", True),
        (f"{prefix}_CLIENT_ID", "one,two", f"providers.{name}.client_ids", ("one", "two")),
        (f"{prefix}_SECRET", "s", f"providers.{name}.secret", conf.Secret("s")),
        (f"{prefix}_REDIRECT_URI", "https://x/callback", f"providers.{name}.redirect_uri", "https://x/callback"),
        (f"{prefix}_URL", "https://x/", f"providers.{name}.url", "https://x"),
        (f"{prefix}_EMAIL_OPTIONAL", "true", f"providers.{name}.email_optional", True),
        (f"{prefix}_SKIP_NONCE_CHECK", "true", f"providers.{name}.skip_nonce_check", True),
    ]


def _hook_settings(name: str) -> list[tuple[str, str, str, object]]:
    prefix = f"AUTH_HOOK_{name.upper()}"
    return [
        (f"{prefix}_URI", "pg-functions://p/auth/f", f"hooks.{name}.uri", "pg-functions://p/auth/f"),
        (f"{prefix}_SECRETS", "a||b", f"hooks.{name}.secrets", (conf.Secret("a"), conf.Secret("b"))),
        (f"{prefix}_TIMEOUT", "100ms", f"hooks.{name}.timeout", timedelta(milliseconds=100)),
        (f"{prefix}_ON_FAILURE", "open", f"hooks.{name}.on_failure", "open"),
    ]


def _mail_settings() -> list[tuple[str, str, str, object]]:
    kinds = [
        *("INVITE", "CONFIRMATION", "RECOVERY", "MAGIC_LINK", "EMAIL_CHANGE", "REAUTHENTICATION"),
        *("PASSWORD_CHANGED_NOTIFICATION", "EMAIL_CHANGED_NOTIFICATION", "PHONE_CHANGED_NOTIFICATION"),
        *("IDENTITY_LINKED_NOTIFICATION", "IDENTITY_UNLINKED_NOTIFICATION"),
        *("MFA_FACTOR_ENROLLED_NOTIFICATION", "MFA_FACTOR_UNENROLLED_NOTIFICATION"),
    ]
    switches = [kind.removesuffix("_NOTIFICATION") for kind in kinds if kind.endswith("_NOTIFICATION")]
    return [
        *((f"AUTH_MAILER_SUBJECTS_{kind}", "Hello", "mailer.subjects", {kind.lower(): "Hello"}) for kind in kinds),
        *((f"AUTH_MAILER_TEMPLATES_{kind}", "/a", "mailer.templates", {kind.lower(): "/a"}) for kind in kinds),
        *(
            (f"AUTH_MAILER_URLPATHS_{kind}", "/a", "mailer.url_paths", {kind.lower(): "/a"})
            for kind in [*kinds[:3], kinds[4]]
        ),
        *(
            (f"AUTH_MAILER_NOTIFICATIONS_{name}_ENABLED", "true", "mailer.notifications", frozenset({name.lower()}))
            for name in switches
        ),
    ]


def _sms_credentials() -> list[tuple[str, str, str, object]]:
    return [
        *(
            row
            for name in ("twilio", "twilio_verify")
            for row in [
                (f"AUTH_SMS_{name.upper()}_ACCOUNT_SID", "a", f"sms.{name}.account_sid", "a"),
                (f"AUTH_SMS_{name.upper()}_AUTH_TOKEN", "s", f"sms.{name}.auth_token", conf.Secret("s")),
                (f"AUTH_SMS_{name.upper()}_MESSAGE_SERVICE_SID", "m", f"sms.{name}.message_service_sid", "m"),
            ]
        ),
        ("AUTH_SMS_TWILIO_CONTENT_SID", "HX1", "sms.twilio.content_sid", "HX1"),
        ("AUTH_SMS_MESSAGEBIRD_ACCESS_KEY", "s", "sms.messagebird.access_key", conf.Secret("s")),
        ("AUTH_SMS_MESSAGEBIRD_ORIGINATOR", "me", "sms.messagebird.originator", "me"),
        ("AUTH_SMS_TEXTLOCAL_API_KEY", "s", "sms.textlocal.api_key", conf.Secret("s")),
        ("AUTH_SMS_TEXTLOCAL_SENDER", "me", "sms.textlocal.sender", "me"),
        ("AUTH_SMS_VONAGE_API_KEY", "k", "sms.vonage.api_key", conf.Secret("k")),
        ("AUTH_SMS_VONAGE_API_SECRET", "s", "sms.vonage.api_secret", conf.Secret("s")),
        ("AUTH_SMS_VONAGE_FROM", "me", "sms.vonage.sender", "me"),
    ]


OTEL_DEFAULTS = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": conf.Secret("http/dup"),
    "OTEL_PROPAGATORS": conf.Secret("tracecontext"),
}
SETTINGS: list[tuple[str, str, str, object]] = [
    ("AUTH_SITE_URL", "https://x", "site.url", "https://x"),
    ("AUTH_URI_ALLOW_LIST", "https://*.x/**,myapp://login", "site.allow_list", ("https://*.x/**", "myapp://login")),
    ("AUTH_DISABLE_SIGNUP", "true", "signup.disabled", True),
    ("AUTH_EXTERNAL_EMAIL_ENABLED", "false", "signup.email_enabled", False),
    ("AUTH_EXTERNAL_PHONE_ENABLED", "true", "signup.phone_enabled", True),
    ("AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED", "true", "signup.anonymous_enabled", True),
    ("AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED", "false", "signup.magic_link_enabled", False),
    ("AUTH_SECURITY_MANUAL_LINKING_ENABLED", "true", "signup.manual_linking_enabled", True),
    ("AUTH_SECURITY_STRICT_PRIVACY_ENABLED", "true", "signup.strict_privacy_enabled", True),
    ("AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD", "true", "passwords.update_requires_current", True),
    ("AUTH_MAILER_SECURE_EMAIL_CHANGE_ENABLED", "false", "mailer.secure_email_change_enabled", False),
    ("AUTH_API_HOST", "127.0.0.1", "api.host", "127.0.0.1"),
    ("AUTH_PORT", "7000", "api.port", 7000),
    ("AUTH_API_PORT", "7000", "api.port", 7000),
    ("PORT", "7000", "api.port", 7000),
    ("AUTH_API_EXTERNAL_URL", "https://x/auth", "api.external_url", "https://x/auth"),
    ("AUTH_REQUEST_ID_HEADER", "X-Id", "api.request_id_header", "X-Id"),
    ("AUTH_API_REQUEST_ID_HEADER", "X-Id", "api.request_id_header", "X-Id"),
    ("REQUEST_ID_HEADER", "X-Id", "api.request_id_header", "X-Id"),
    ("AUTH_SECURITY_FORWARDED_FOR_ENABLED", "true", "api.forwarded_for_enabled", True),
    ("AUTH_API_MAX_REQUEST_DURATION", "1m", "api.max_request_duration", seconds(60)),
    ("AUTH_CORS_ALLOWED_HEADERS", "x-foo,x-bar", "api.cors_allowed_headers", ("x-foo", "x-bar")),
    ("AUTH_TRUSTED_PROXIES", "10.0.0.0/8, ::1", "api.trusted_proxies", (ip_network("10.0.0.0/8"), ip_network("::1"))),
    ("AUTH_OPERATOR_CONSOLE_ENABLED", "false", "console.enabled", False),
    ("AUTH_DB_CLEANUP_ENABLED", "true", "database.cleanup_enabled", True),
    ("AUTH_INDEX_WORKER_ENSURE_USER_SEARCH_INDEXES_EXIST", "true", "index_worker.ensure_user_search", True),
    ("AUTH_INDEX_WORKER_MAX_USERS_THRESHOLD", "5000", "index_worker.max_users", 5000),
    ("AUTH_OPERATOR_ALLOWED_NETWORKS", "10.0.0.0/8", "console.allowed_networks", (ip_network("10.0.0.0/8"),)),
    ("WEB_CONCURRENCY", "3", "api.processes", 3),
    ("AUTH_API_DOCS_ENABLED", "true", "api.docs_enabled", True),
    ("AUTH_PASSWORD_MIN_LENGTH", "8", "passwords.min_length", 8),
    ("AUTH_PASSWORD_REQUIRED_CHARACTERS", "a:b", "passwords.required_characters", ("a", "b")),
    (
        "AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION",
        "true",
        "passwords.update_requires_reauthentication",
        True,
    ),
    ("AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED", "false", "refresh.rotation_enabled", False),
    ("AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL", "5", "refresh.reuse_interval", seconds(5)),
    ("AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE", "true", "refresh.allow_reuse", True),
    ("AUTH_SESSIONS_TIMEBOX", "24h", "sessions.timebox", timedelta(days=1)),
    ("AUTH_SESSIONS_INACTIVITY_TIMEOUT", "24h", "sessions.inactivity_timeout", timedelta(days=1)),
    ("AUTH_SESSIONS_ALLOW_LOW_AAL", "24h", "sessions.allow_low_aal", timedelta(days=1)),
    ("AUTH_SESSIONS_SINGLE_PER_USER", "true", "sessions.single_per_user", True),
    ("AUTH_SESSIONS_TAGS", "web,app", "sessions.tags", ("web", "app")),
    ("AUTH_SECURITY_OTP_MAX_ATTEMPTS", "3", "codes.max_attempts", 3),
    ("AUTH_EXTERNAL_FLOW_STATE_EXPIRY_DURATION", "10m", "flows.expiry", seconds(600)),
    ("AUTH_EXTERNAL_REDIRECT_URL", "app://x", "federation.redirect_url", "app://x"),
    ("AUTH_EXTERNAL_REDIRECTURL", "app://x", "federation.redirect_url", "app://x"),
    ("AUTH_EXTERNAL_IOS_BUNDLE_ID", "com.x", "federation.ios_bundle_id", "com.x"),
    ("AUTH_EXTERNAL_ALLOWED_ID_TOKEN_ISSUERS", "https://x", "federation.id_token_issuers", ("https://x",)),
    ("AUTH_EXTERNAL_OIDC_PROVIDER_CACHE_TTL", "2h", "federation.discovery_max_age", timedelta(hours=2)),
    ("AUTH_EXTERNAL_FLOW_BINDING_ENABLED", "true", "federation.flow_binding_enabled", True),
    (
        "AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS",
        "github = social,custom:google=social",
        "federation.linking_domains",
        {"github": "social", "custom:google": "social"},
    ),
    (
        "AUTH_EXPERIMENTAL_PROVIDERS_WITH_OWN_LINKING_DOMAIN",
        "github,google",
        "federation.domain_by_provider",
        {"github": "github", "google": "google"},
    ),
    *(row for name in HOOKS for row in _hook_settings(name)),
    ("AUTH_HOOK_MAX_CONCURRENCY", "3", "hook_calls.max_concurrency", 3),
    ("AUTH_HOOK_SEND_EMAIL_DELIVERY", "inline", "hook_calls.send_email_delivery", "inline"),
    ("AUTH_HOOK_SEND_SMS_DELIVERY", "inline", "hook_calls.send_sms_delivery", "inline"),
    ("AUTH_EXTERNAL_WEB3_ETHEREUM_ENABLED", "true", "wallets.ethereum_enabled", True),
    ("AUTH_EXTERNAL_WEB3_ETHEREUM_MAXIMUM_VALIDITY_DURATION", "1m", "wallets.ethereum_max_age", seconds(60)),
    ("AUTH_EXTERNAL_WEB3_SOLANA_ENABLED", "true", "wallets.solana_enabled", True),
    ("AUTH_EXTERNAL_WEB3_SOLANA_MAXIMUM_VALIDITY_DURATION", "1m", "wallets.solana_max_age", seconds(60)),
    ("AUTH_RATE_LIMIT_WEB3", "2", "limits.web3", 2.0),
    ("AUTH_CUSTOM_OAUTH_ENABLED", "false", "custom_providers.enabled", False),
    ("AUTH_CUSTOM_OAUTH_MAX_PROVIDERS", "3", "custom_providers.max_providers", 3),
    ("AUTH_CUSTOM_OAUTH_EXTERNAL_URL", "https://x/auth/", "custom_providers.external_url", "https://x/auth"),
    ("AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED", "true", "custom_providers.private_networks_enabled", True),
    ("AUTH_DB_DATABASE_URL", "postgres://x", "database.url", conf.Secret("postgres://x")),
    ("AUTH_DATABASE_URL", "postgres://x", "database.url", conf.Secret("postgres://x")),
    ("DATABASE_URL", "embedded:.data/postgres", "database.url", conf.Secret("embedded:.data/postgres")),
    ("AUTH_DB_MAX_POOL_SIZE", "20", "database.max_pool_size", 20),
    ("AUTH_DB_READ_REPLICA_URL", "postgres://b/auth", "database.read_replica_url", conf.Secret("postgres://b/auth")),
    ("AUTH_DB_NAMESPACE", "auth", "database.namespace", "auth"),
    ("DB_NAMESPACE", "auth", "database.namespace", "auth"),
    ("AUTH_DB_PREPARED_STATEMENTS_ENABLED", "false", "database.prepared_statements_enabled", False),
    ("AUTH_DB_TRANSACTION_POOLING_ENABLED", "true", "database.transaction_pooling_enabled", True),
    ("AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID", "k", "database.encryption_key_id", "k"),
    ("AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY", KEY, "database.encryption_key", conf.Secret(KEY)),
    ("AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", f"k:{KEY}", "database.decryption_keys", {"k": conf.Secret(KEY)}),
    ("AUTH_LOG_LEVEL", "WARN", "logging.level", "warning"),
    ("LOG_LEVEL", "trace", "logging.level", "trace"),
    ("AUTH_LOG_FILE", "/var/log/auth", "logging.file", "/var/log/auth"),
    ("AUTH_LOG_SQL", "statement", "logging.sql", "statement"),
    ("AUTH_EXPERIMENTAL_CURSOR_PAGINATION_ENABLED", "true", "experimental.cursor_pagination_enabled", True),
    (
        "AUTH_EXPERIMENTAL_CREATE_EMAIL_IDENTITY_ON_PASSWORD_SET_ENABLED",
        "true",
        "experimental.email_identity_on_password_enabled",
        True,
    ),
    ("AUTH_AUDIT_LOG_DISABLE_POSTGRES", "true", "audit.disable_postgres", True),
    ("AUTH_AUDIT_LOG_REFRESHES_STORED", "false", "audit.refreshes_stored", False),
    ("AUTH_AUDIT_LOG_RETENTION", "8760h", "audit.retention", timedelta(days=365)),
    ("AUTH_AUDIT_LOG_DROP_EXPIRED", "true", "audit.drop_expired", True),
    ("AUTH_TRACING_ENABLED", "true", "telemetry.tracing_enabled", True),
    ("AUTH_METRICS_ENABLED", "true", "telemetry.metrics_enabled", True),
    ("AUTH_METRICS_EXPORTER", "prometheus", "telemetry.metrics_exporter", "prometheus"),
    ("AUTH_OTEL_EXPORTER_PROMETHEUS_HOST", "::1", "telemetry.prometheus_host", "::1"),
    ("OTEL_EXPORTER_PROMETHEUS_HOST", "::1", "telemetry.prometheus_host", "::1"),
    ("AUTH_OTEL_EXPORTER_PROMETHEUS_PORT", "9101", "telemetry.prometheus_port", 9101),
    ("OTEL_EXPORTER_PROMETHEUS_PORT", "9101", "telemetry.prometheus_port", 9101),
    ("AUTH_DEBUG", "true", "telemetry.debug", True),
    ("DEBUG", "true", "telemetry.debug", True),
    ("AUTH_OTEL_RESOURCE_ATTRIBUTES", "a=b, c=d%20e", "telemetry.resource_attributes", {"a": "b", "c": "d e"}),
    ("OTEL_RESOURCE_ATTRIBUTES", "a=b", "telemetry.resource_attributes", {"a": "b"}),
    ("AUTH_OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "telemetry.otlp_protocol", "grpc"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "telemetry.otlp_protocol", "grpc"),
    (
        "AUTH_OTEL_EXPORTER_OTLP_HEADERS",
        "key=s",
        "telemetry.variables",
        OTEL_DEFAULTS | {"OTEL_EXPORTER_OTLP_HEADERS": conf.Secret("key=s")},
    ),
    ("OTEL_SERVICE_NAME", "auth", "telemetry.variables", OTEL_DEFAULTS | {"OTEL_SERVICE_NAME": conf.Secret("auth")}),
    (
        "OTEL_PROPAGATORS",
        "baggage",
        "telemetry.variables",
        OTEL_DEFAULTS | {"OTEL_PROPAGATORS": conf.Secret("baggage")},
    ),
    ("AUTH_SMTP_ADMIN_EMAIL", "a@example.com", "smtp.admin_email", "a@example.com"),
    ("AUTH_SMTP_PORT", "465", "smtp.port", 465),
    ("AUTH_SMTP_USER", "me", "smtp.user", "me"),
    ("AUTH_SMTP_PASS", "s", "smtp.password", conf.Secret("s")),
    ("AUTH_SMTP_MAX_FREQUENCY", "5", "smtp.max_frequency", seconds(5)),
    ("AUTH_SMTP_SENDER_NAME", "Me", "smtp.sender_name", "Me"),
    ("AUTH_SMTP_HEADERS", '{"X-Kind": ["$messageType", "b"]}', "smtp.headers", {"X-Kind": ("$messageType", "b")}),
    ("AUTH_SMTP_LOGGING_ENABLED", "true", "smtp.logging_enabled", True),
    ("AUTH_MAILER_AUTOCONFIRM", "true", "mailer.autoconfirm", True),
    ("AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS", "true", "mailer.allow_unverified_email_sign_ins", True),
    ("AUTH_MAILER_OTP_EXP", "600", "mailer.otp_exp", seconds(600)),
    ("AUTH_MAILER_OTP_LENGTH", "8", "mailer.otp_length", 8),
    ("AUTH_MAILER_EXTERNAL_HOSTS", "a.example.com,b", "mailer.external_hosts", ("a.example.com", "b")),
    ("AUTH_MAILER_BACKEND_OPTIONS", '{"api_key": "s"}', "mailer.backend_options", {"api_key": "s"}),
    ("AUTH_MAILER_DEV_INBOX_ENABLED", "true", "mailer.dev_inbox_enabled", True),
    ("AUTH_MAILER_DEV_INBOX_FOLDER", "/tmp/x", "mailer.dev_inbox_folder", "/tmp/x"),
    ("AUTH_MAILER_WORKER_ENABLED", "false", "mailer.worker_enabled", False),
    ("AUTH_MAILER_TEMPLATE_MAX_SIZE", "5000", "mailer.template_max_size", 5000),
    ("AUTH_MAILER_TEMPLATE_MAX_AGE", "1m", "mailer.template_max_age", seconds(60)),
    ("AUTH_MAILER_TEMPLATE_RETRY_INTERVAL", "2s", "mailer.template_retry_interval", seconds(2)),
    ("AUTH_RELOADING_NOTIFY_ENABLED", "false", "reloading.notify_enabled", False),
    ("AUTH_RELOADING_POLLER_ENABLED", "true", "reloading.poller_enabled", True),
    ("AUTH_RELOADING_POLLER_INTERVAL", "3s", "reloading.poller_interval", seconds(3)),
    ("AUTH_RELOADING_SIGNAL_ENABLED", "true", "reloading.signal_enabled", True),
    ("AUTH_RELOADING_SIGNAL_NUMBER", "28", "reloading.signal_number", 28),
    ("AUTH_RELOADING_GRACE_PERIOD_INTERVAL", "1s", "reloading.grace_period", seconds(1)),
    ("AUTH_MAILER_TEMPLATE_RELOADING_ENABLED", "true", "mailer.template_reloading_enabled", True),
    ("AUTH_MAILER_TEMPLATE_RELOADING_MAX_IDLE", "1h", "mailer.template_reloading_max_idle", seconds(3600)),
    ("AUTH_MAILER_GENERATE_LINK_INVITE_ENABLED", "false", "mailer.generate_link_invite_enabled", False),
    ("AUTH_MAILER_LINK_CONFIRM_PAGE_ENABLED", "true", "mailer.link_confirm_page_enabled", True),
    ("AUTH_PASSWORD_HIBP_ENABLED", "true", "breaches.enabled", True),
    ("AUTH_PASSWORD_HIBP_FAIL_CLOSED", "true", "breaches.fail_closed", True),
    ("AUTH_PASSWORD_HIBP_USER_AGENT", "me/1", "breaches.user_agent", "me/1"),
    ("AUTH_PASSWORD_HIBP_BLOOM_ENABLED", "true", "breaches.bloom_enabled", True),
    ("AUTH_PASSWORD_HIBP_BLOOM_ITEMS", "5000", "breaches.bloom_items", 5000),
    ("AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES", "0.001", "breaches.bloom_false_positives", 0.001),
    (
        "AUTH_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES",
        "a@x.com,b@x.com",
        "recipients.authorized_addresses",
        ("a@x.com", "b@x.com"),
    ),
    ("AUTH_MAILER_EMAIL_VALIDATION_EXTENDED", "true", "recipients.extended_validation", True),
    ("AUTH_MAILER_EMAIL_VALIDATION_SERVICE_URL", "https://x/v", "recipients.service_url", "https://x/v"),
    (
        "AUTH_MAILER_EMAIL_VALIDATION_SERVICE_HEADERS",
        '{"X-Key": ["s"]}',
        "recipients.service_headers",
        {"X-Key": ("s",)},
    ),
    (
        "AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX",
        '["MX.example.com.", "192.0.2.1"]',
        "recipients.blocked_exchangers",
        frozenset({"mx.example.com", "192.0.2.1"}),
    ),
    ("AUTH_SMS_AUTOCONFIRM", "true", "sms.autoconfirm", True),
    ("AUTH_SMS_MAX_FREQUENCY", "5s", "sms.max_frequency", seconds(5)),
    ("AUTH_SMS_OTP_EXP", "600", "sms.otp_exp", seconds(600)),
    ("AUTH_SMS_OTP_LENGTH", "7", "sms.otp_length", 7),
    ("AUTH_SMS_PROVIDER", "twilio_verify", "sms.provider", "twilio_verify"),
    ("AUTH_SMS_TEMPLATE", "{{ .Code }}", "sms.template", "{{ .Code }}"),
    (
        "AUTH_SMS_TEST_OTP",
        "+1 555 1234567:123456,4915100000:000000",
        "sms.test_codes",
        {"15551234567": "123456", "4915100000": "000000"},
    ),
    (
        "AUTH_SMS_TEST_OTP_VALID_UNTIL",
        " 2026-01-02T03:04:05.123456789+01:00 ",
        "sms.test_codes_end_at",
        datetime(2026, 1, 2, 2, 4, 5, 123456, tzinfo=UTC),
    ),
    *_sms_credentials(),
    ("AUTH_INTERNAL_HTTP_TIMEOUT", "3s", "api.internal_http_timeout", seconds(3)),
    ("AUTH_MFA_TOTP_ENROLL_ENABLED", "false", "mfa.totp_enroll_enabled", False),
    ("AUTH_MFA_TOTP_VERIFY_ENABLED", "false", "mfa.totp_verify_enabled", False),
    ("AUTH_MFA_PHONE_ENROLL_ENABLED", "true", "mfa.phone_enroll_enabled", True),
    ("AUTH_MFA_PHONE_VERIFY_ENABLED", "true", "mfa.phone_verify_enabled", True),
    ("AUTH_MFA_WEB_AUTHN_ENROLL_ENABLED", "true", "mfa.web_authn_enroll_enabled", True),
    ("AUTH_MFA_WEB_AUTHN_VERIFY_ENABLED", "true", "mfa.web_authn_verify_enabled", True),
    ("AUTH_MFA_CHALLENGE_EXPIRY_DURATION", "600.5", "mfa.challenge_expiry", seconds(600.5)),
    ("AUTH_MFA_FACTOR_EXPIRY_DURATION", "10m", "mfa.factor_expiry", seconds(600)),
    ("AUTH_MFA_MAX_ENROLLED_FACTORS", "3.9", "mfa.max_enrolled", 3),
    ("AUTH_MFA_MAX_VERIFIED_FACTORS", "4", "mfa.max_verified", 4),
    ("AUTH_MFA_PHONE_OTP_LENGTH", "8", "mfa.phone_otp_length", 8),
    ("AUTH_MFA_PHONE_TEMPLATE", "{{ .Code }}", "mfa.phone_template", "{{ .Code }}"),
    ("AUTH_MFA_PHONE_MAX_FREQUENCY", "5", "mfa.phone_max_frequency", seconds(5)),
    ("AUTH_MFA_RECOVERY_CODES_ENABLED", "true", "mfa.recovery_codes_enabled", True),
    ("AUTH_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY", "5", "limits.factors", 5.0),
    ("AUTH_PASSKEY_ENABLED", "true", "passkeys.enabled", True),
    ("AUTH_PASSKEY_MAX_PASSKEYS_PER_USER", "3", "passkeys.max_per_user", 3),
    ("AUTH_WEBAUTHN_RP_ID", "example.com", "webauthn.rp_id", "example.com"),
    ("AUTH_WEBAUTHN_RP_DISPLAY_NAME", "Example", "webauthn.rp_display_name", "Example"),
    ("AUTH_WEBAUTHN_RP_ORIGINS", "https://a,https://b", "webauthn.rp_origins", ("https://a", "https://b")),
    ("AUTH_WEBAUTHN_CHALLENGE_EXPIRY_DURATION", "90s", "webauthn.challenge_expiry", seconds(90)),
    ("AUTH_RATE_LIMIT_PASSKEY", "5", "limits.passkey", 5.0),
    ("AUTH_SECURITY_CAPTCHA_PROVIDER", "Turnstile", "captcha.provider", "turnstile"),
    ("AUTH_SECURITY_CAPTCHA_SECRET", "  s ", "captcha.secret", conf.Secret("s")),
    ("AUTH_SECURITY_CAPTCHA_TIMEOUT", "3s", "captcha.timeout", seconds(3)),
    ("AUTH_JWT_SECRET", "$s", "jwt.secret", conf.Secret("$s")),
    ("AUTH_JWT_EXP", "100", "jwt.exp", seconds(100)),
    ("AUTH_JWT_AUD", "authenticated", "jwt.aud", "authenticated"),
    ("AUTH_JWT_ISSUER", "https://x", "jwt.issuer", "https://x"),
    ("AUTH_JWT_ADMIN_ROLES", "a, b ,,", "jwt.admin_roles", ("a", "b")),
    ("JWT_ADMIN_ROLES", "a", "jwt.admin_roles", ("a",)),
    ("AUTH_JWT_ADMIN_GROUP_NAME", "boss", "jwt.admin_group_name", "boss"),
    ("AUTH_JWT_DEFAULT_GROUP_NAME", "authenticated", "jwt.default_group_name", "authenticated"),
    ("AUTH_JWT_KEYS", json.dumps([RSA, OCT]), "jwt.keys", (RSA, OCT)),
    ("AUTH_JWT_KEY_ID", "k", "jwt.key_id", "k"),
    ("AUTH_JWT_VALID_METHODS", "HS256,ES256", "jwt.valid_methods", ("HS256", "ES256")),
    ("AUTH_RATE_LIMIT_HEADER", "X-Real-IP", "limits.header", "X-Real-IP"),
    ("AUTH_RATE_LIMIT_EMAIL_SENT", "10/1h", "limits.email_sent", conf.Rate(events=10, over=seconds(3600))),
    ("AUTH_RATE_LIMIT_SMS_SENT", "13.5", "limits.sms_sent", conf.Rate(events=13)),
    ("AUTH_RATE_LIMIT_VERIFY", "1.5", "limits.verify", 1.5),
    ("AUTH_RATE_LIMIT_TOKEN_REFRESH", "1e3", "limits.token_refresh", 1000.0),
    ("AUTH_RATE_LIMIT_OTP", "0", "limits.otp", 0.0),
    ("AUTH_RATE_LIMIT_ANONYMOUS_USERS", "5", "limits.anonymous_users", 5.0),
    ("AUTH_RATE_LIMIT_OAUTH_DYNAMIC_CLIENT_REGISTER", "2.5", "limits.oauth_registration", 2.5),
    *_mail_settings(),
    *(setting for name in conf.PROVIDERS for setting in _provider_settings(name)),
]


@pytest.mark.parametrize(("name", "value", "path", "expected"), SETTINGS, ids=[row[0] for row in SETTINGS])
def test_each_setting_reaches_its_field(name: str, value: str, path: str, expected: object) -> None:
    others = {
        other: text for other, text in REQUIRED.items() if not (other == "DATABASE_URL" and "DATABASE_URL" in name)
    }
    credentials = {
        f"{name.removesuffix('_ENABLED')}_{part}": "x" for part in ("CLIENT_ID", "SECRET", "REDIRECT_URI", "URL")
    }
    is_provider_switch = path.startswith("providers.") and name.endswith("_ENABLED")
    assert _at(conf.load(others | (credentials if is_provider_switch else {}) | {name: value}), path) == expected
    if name not in REQUIRED and "DATABASE_URL" not in name:
        assert _at(_defaults(), path) != expected


@functools.cache
def _defaults() -> conf.AuthConfig:
    return load()


def _at(settings: conf.AuthConfig, path: str) -> object:
    if path.startswith(("providers.", "hooks.")):
        section, name, attribute = path.split(".")
        return getattr(getattr(settings, section)[name], attribute)
    return attrgetter(path)(settings)


def test_dependent_settings_reach_their_fields() -> None:
    smtp = load(AUTH_SMTP_HOST="mail", AUTH_SMTP_PORT="25", AUTH_SMTP_ADMIN_EMAIL="a@example.com").smtp
    assert (smtp.host, smtp.port, smtp.admin_email) == ("mail", 25, "a@example.com")
    backend = "anymail.backends.postmark.EmailBackend"
    mailer = load(AUTH_MAILER_BACKEND=backend, AUTH_SMTP_ADMIN_EMAIL="a@example.com").mailer
    assert mailer.backend == backend
    captcha = load(AUTH_SECURITY_CAPTCHA_ENABLED="true", AUTH_SECURITY_CAPTCHA_SECRET="s").captcha
    assert captcha == conf.Captcha(enabled=True, secret=conf.Secret("s"))
    database = load(
        AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT="true",
        AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID="k",
        AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY=KEY,
        AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS=f"k:{KEY}",
    ).database
    assert database.encrypt


def test_the_defaults_are_those_of_the_declarations() -> None:
    settings = load()
    assert settings == conf.AuthConfig(
        site=conf.Site(url="https://app.example.com"),
        api=conf.Api(external_url="https://auth.example.com"),
        database=conf.Database(driver="postgres", url=conf.Secret(REQUIRED["DATABASE_URL"])),
        jwt=conf.Jwt(secret=conf.Secret("hunter2")),
        providers=dict.fromkeys(conf.PROVIDERS, conf.Provider()),
        hooks=dict.fromkeys(HOOKS, HookSettings()),
        notices=settings.notices,
    )
    assert (settings.api.port, settings.jwt.exp, settings.passwords.min_length) == (8081, seconds(3600), 6)


@pytest.mark.parametrize(
    ("variables", "attribute", "expected"),
    [
        ({"AUTH_API_PORT": "1", "AUTH_PORT": "2", "PORT": "3"}, "api.port", 1),
        ({"AUTH_PORT": "2", "PORT": "3"}, "api.port", 2),
        (
            {"AUTH_DB_DATABASE_URL": "postgres://a", "AUTH_DATABASE_URL": "postgres://b"},
            "database.url",
            conf.Secret("postgres://a"),
        ),
        ({"AUTH_LOG_LEVEL": "debug", "LOG_LEVEL": "error"}, "logging.level", "debug"),
        ({"AUTH_REQUEST_ID_HEADER": "", "REQUEST_ID_HEADER": "X"}, "api.request_id_header", ""),
        ({"AUTH_DEBUG": "false", "DEBUG": "true"}, "telemetry.debug", False),
        (
            {"AUTH_OTEL_SERVICE_NAME": "a", "OTEL_SERVICE_NAME": "b"},
            "telemetry.variables",
            OTEL_DEFAULTS | {"OTEL_SERVICE_NAME": conf.Secret("a")},
        ),
        ({"AUTH_WEB_CONCURRENCY": "9"}, "api.processes", 0),
        ({"auth_disable_signup": "true", "AUTH_UNKNOWN": "x", "DISABLE_SIGNUP": "true"}, "signup.disabled", False),
    ],
)
def test_the_first_variable_that_is_set_is_used(variables: dict[str, str], attribute: str, expected: object) -> None:
    assert attrgetter(attribute)(load(**variables)) == expected


def test_the_repr_of_the_settings_hides_secrets() -> None:
    secrets = {
        "AUTH_SMTP_PASS": "hunter2",
        "AUTH_SMTP_HEADERS": '{"X-Key": ["hunter2"]}',
        "AUTH_MAILER_EMAIL_VALIDATION_SERVICE_HEADERS": '{"X-Key": ["hunter2"]}',
        "AUTH_MAILER_BACKEND_OPTIONS": '{"key": "hunter2"}',
        "AUTH_SECURITY_CAPTCHA_SECRET": "hunter2",
        "AUTH_EXTERNAL_GITHUB_SECRET": "hunter2",
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY": "hunter2",
        "AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS": f"k:{KEY}",
        "AUTH_JWT_KEYS": json.dumps([RSA | {"d": "hunter2"}]),
    }
    settings = load(**secrets)
    assert "hunter2" not in repr(settings)
    assert KEY not in repr(settings)


def test_the_example_file_lacks_only_the_secret() -> None:
    example = (ROOT / ".env.example").read_text()
    (problem,) = problems(dotenv.parse(example))
    assert problem.startswith("required key AUTH_JWT_SECRET missing value")
    conf.load(dotenv.parse(example) | {"AUTH_JWT_SECRET": "s"})


def test_the_defaults_in_the_example_file_are_those_of_the_service() -> None:
    shown = re.findall(r"(?m)^# ([A-Z_]+)=(.+)$", (ROOT / ".env.example").read_text())
    assert len(shown) > 100
    standard = [variable for variable in shown if "OTEL_" not in variable[0]]
    assert dataclasses.replace(load(**dict(standard)), notices=()) == dataclasses.replace(load(), notices=())
