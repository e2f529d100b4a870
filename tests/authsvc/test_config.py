"""Reading the settings: names, types, sources, rules, and what `manage.py` says when they are wrong."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from authsvc import conf
from authsvc.conf import Notice, dotenv, durations

ROOT = Path(__file__).resolve().parents[2]

REQUIRED = {
    "AUTH_SITE_URL": "https://app.example.com",
    "AUTH_API_EXTERNAL_URL": "https://auth.example.com",
    "AUTH_DB_DRIVER": "postgres",
    "DATABASE_URL": "postgres://authsvc:hunter2@db:5432/postgres",
    "AUTH_JWT_SECRET": "hunter2",
}
KEY = base64.urlsafe_b64encode(b"k" * 32).rstrip(b"=").decode()
RSA = {"kty": "RSA", "kid": "r", "alg": "RS256", "key_ops": ["sign", "verify"], "n": "AQAB", "e": "AQAB", "d": "AQAB"}
EC = {"kty": "EC", "crv": "P-256", "kid": "e", "key_ops": ["verify"], "x": "AQAB", "y": "AQAB"}
P521 = {"kty": "EC", "crv": "P-521", "kid": "p", "key_ops": ["sign"], "x": "AQAB", "y": "AQAB", "d": "AQAB"}
OCT = {"kty": "oct", "kid": "o", "alg": "HS256", "key_ops": ["verify"], "k": "AQAB"}

UNSUPPORTED = "DEPRECATION NOTICE: {} is not supported, will be removed soon"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(**variables: str) -> conf.AuthConfig:
    return conf.load(REQUIRED | variables)


def problems(variables: Mapping[str, str]) -> list[str]:
    with pytest.raises(ImproperlyConfigured) as caught:
        conf.load(variables)
    return str(caught.value).splitlines()


def only_problem(**variables: str) -> str:
    (problem,) = problems(REQUIRED | variables)
    return problem


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


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
    ("AUTH_CUSTOM_OAUTH_ENABLED", "false", "custom_providers.enabled", False),
    ("AUTH_CUSTOM_OAUTH_MAX_PROVIDERS", "3", "custom_providers.max_providers", 3),
    ("AUTH_CUSTOM_OAUTH_EXTERNAL_URL", "https://x/auth/", "custom_providers.external_url", "https://x/auth"),
    ("AUTH_CUSTOM_OAUTH_PRIVATE_NETWORKS_ENABLED", "true", "custom_providers.private_networks_enabled", True),
    ("AUTH_DB_DATABASE_URL", "postgres://x", "database.url", conf.Secret("postgres://x")),
    ("AUTH_DATABASE_URL", "postgres://x", "database.url", conf.Secret("postgres://x")),
    ("DATABASE_URL", "embedded:.data/postgres", "database.url", conf.Secret("embedded:.data/postgres")),
    ("AUTH_DB_MAX_POOL_SIZE", "20", "database.max_pool_size", 20),
    ("AUTH_DB_NAMESPACE", "auth", "database.namespace", "auth"),
    ("DB_NAMESPACE", "auth", "database.namespace", "auth"),
    ("AUTH_DB_PREPARED_STATEMENTS_ENABLED", "false", "database.prepared_statements_enabled", False),
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
        {"OTEL_EXPORTER_OTLP_HEADERS": conf.Secret("key=s")},
    ),
    ("OTEL_SERVICE_NAME", "auth", "telemetry.variables", {"OTEL_SERVICE_NAME": conf.Secret("auth")}),
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
        assert _at(load(), path) != expected


def _at(settings: conf.AuthConfig, path: str) -> object:
    if path.startswith("providers."):
        _, name, attribute = path.split(".")
        return getattr(settings.providers[name], attribute)
    return attrgetter(path)(settings)


def test_settings_that_need_one_another_reach_their_fields() -> None:
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


def test_the_defaults_are_those_of_the_schema() -> None:
    settings = load()
    assert settings == conf.AuthConfig(
        site=conf.Site(url="https://app.example.com"),
        api=conf.Api(external_url="https://auth.example.com"),
        database=conf.Database(driver="postgres", url=conf.Secret(REQUIRED["DATABASE_URL"])),
        jwt=conf.Jwt(secret=conf.Secret("hunter2")),
        providers=dict.fromkeys(conf.PROVIDERS, conf.Provider()),
        notices=settings.notices,
    )
    assert (settings.api.port, settings.jwt.exp, settings.passwords.min_length) == (8081, seconds(3600), 6)


@pytest.mark.parametrize("name", [*REQUIRED])
@pytest.mark.parametrize("value", [None, ""])
def test_a_required_setting_must_be_there(name: str, value: str | None) -> None:
    variables = {key: text for key, text in REQUIRED.items() if key != name} | ({} if value is None else {name: value})
    (problem,) = problems(variables)
    assert problem.startswith(f"required key {name} missing value: ")


def test_every_problem_is_reported_at_once() -> None:
    found = problems({"AUTH_DISABLE_SIGNUP": "yes", "AUTH_API_MAX_REQUEST_DURATION": "10", "AUTH_DB_DRIVER": "mysql"})
    assert [line.partition(" missing value: ")[0] for line in found] == [
        "required key AUTH_SITE_URL",
        "required key AUTH_API_EXTERNAL_URL",
        'AUTH_API_MAX_REQUEST_DURATION: invalid duration "10": every number needs a unit of ns, us, ms, s, m or h',
        'AUTH_DB_DRIVER must be "postgres"',
        "required key DATABASE_URL",
        "required key AUTH_JWT_SECRET",
        'AUTH_DISABLE_SIGNUP: invalid bool "yes": must be true or false',
    ]


@pytest.mark.parametrize("name", ["AUTH_DB_DATABASE_URL", "AUTH_DATABASE_URL", "DATABASE_URL"])
def test_a_problem_names_the_variable_that_the_operator_has_set(name: str) -> None:
    others = {key: text for key, text in REQUIRED.items() if key != "DATABASE_URL"}
    (empty,) = problems({**others, name: ""})
    assert empty.startswith(f"required key {name} missing value: ")
    (wrong,) = problems({**others, name: "mysql://db"})
    assert wrong.startswith(f'{name}: invalid URL "***": must be postgres://')


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
            {"OTEL_SERVICE_NAME": conf.Secret("a")},
        ),
        ({"AUTH_WEB_CONCURRENCY": "9"}, "api.processes", 0),
        ({"auth_disable_signup": "true", "AUTH_UNKNOWN": "x", "DISABLE_SIGNUP": "true"}, "signup.disabled", False),
    ],
)
def test_of_several_names_the_first_that_is_set_counts(
    variables: dict[str, str], attribute: str, expected: object
) -> None:
    assert attrgetter(attribute)(load(**variables)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in "1 t T TRUE true True".split()),
        *((v, False) for v in "0 f F FALSE false False".split()),
    ],
)
def test_bools_have_six_spellings_each(value: str, expected: bool) -> None:
    assert load(AUTH_DISABLE_SIGNUP=value).signup.disabled is expected


@pytest.mark.parametrize(
    ("value", "expected"), [("+7", 7), ("0x10", 16), ("0b111", 7), ("0o17", 15), ("010", 10), ("0X0f", 15)]
)
def test_whole_numbers_have_four_bases(value: str, expected: int) -> None:
    assert load(AUTH_PASSWORD_MIN_LENGTH=value).passwords.min_length == expected


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("AUTH_DISABLE_SIGNUP", "", "bool"),
        ("AUTH_DISABLE_SIGNUP", "yes", "bool"),
        ("AUTH_DISABLE_SIGNUP", "tRUE", "bool"),
        ("AUTH_PASSWORD_MIN_LENGTH", "", "int"),
        ("AUTH_PASSWORD_MIN_LENGTH", "1_0", "int"),
        ("AUTH_PASSWORD_MIN_LENGTH", " 8", "int"),
        ("AUTH_PASSWORD_MIN_LENGTH", "9223372036854775808", "int"),
        ("AUTH_SECURITY_OTP_MAX_ATTEMPTS", "-1", "uint"),
        ("AUTH_JWT_EXP", "1h", "uint"),
        ("AUTH_JWT_EXP", "9999999999999", "uint"),
        ("AUTH_API_PORT", "0", "port"),
        ("PORT", "65536", "port"),
        ("AUTH_SMTP_PORT", "smtp", "port"),
        ("AUTH_RATE_LIMIT_VERIFY", "nan", "float"),
        ("AUTH_RATE_LIMIT_VERIFY", "1e999", "float"),
        ("AUTH_RATE_LIMIT_VERIFY", "-1", "float"),
        ("AUTH_API_MAX_REQUEST_DURATION", "", "duration"),
        ("AUTH_SMTP_MAX_FREQUENCY", "5x", "seconds"),
        ("AUTH_SMTP_MAX_FREQUENCY", "", "seconds"),
        ("AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL", "-10", "seconds"),
        ("AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL", "-10s", "seconds"),
        ("AUTH_TRUSTED_PROXIES", "10.0.0.0/33", "list of networks"),
        ("AUTH_OPERATOR_ALLOWED_NETWORKS", "x", "list of networks"),
        ("AUTH_METRICS_EXPORTER", "other", "choice"),
        ("AUTH_TRACING_EXPORTER", "prometheus", "choice"),
        ("AUTH_SITE_URL", "app.example.com", "URL"),
        ("AUTH_SITE_URL", "myapp://login", "URL"),
        ("AUTH_API_EXTERNAL_URL", "auth.example.com", "URL"),
        ("AUTH_API_EXTERNAL_URL", "https:///path", "URL"),
        ("AUTH_API_EXTERNAL_URL", "https://x:port", "URL"),
        ("AUTH_CUSTOM_OAUTH_EXTERNAL_URL", "/auth", "URL"),
        ("AUTH_LOG_LEVEL", "loud", "level"),
        ("AUTH_LOG_SQL", "some", "choice"),
        ("AUTH_MAILER_BACKEND", "not a name", "dotted name"),
        ("AUTH_INTERNAL_HTTP_TIMEOUT", "10", "duration"),
        ("AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS", "github", "map"),
        ("AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS", "github=", "map"),
        ("AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS", "github=a,=b", "map"),
        ("AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS", "github=a=b", "map"),
        ("AUTH_SMS_TEST_OTP_VALID_UNTIL", "2026-01-02", "time"),
        ("AUTH_SMS_TEST_OTP_VALID_UNTIL", "2026-01-02T03:04:05", "time"),
        ("AUTH_SMS_TEST_OTP_VALID_UNTIL", "2026-13-02T03:04:05Z", "time"),
    ],
)
def test_a_malformed_value_is_refused_by_name_type_and_value(name: str, value: str, kind: str) -> None:
    assert only_problem(**{name: value}).startswith(f'{name}: invalid {kind} "{value}": ')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTH_JWT_KEYS", "hunter2"),
        ("AUTH_JWT_KEYS", '["hunter2"]'),
        ("AUTH_JWT_KEYS", '[{"kty": "hunter2", "key_ops": ["sign"]}]'),
        ("AUTH_MAILER_BACKEND_OPTIONS", "hunter2"),
        ("AUTH_MAILER_BACKEND_OPTIONS", '["hunter2"]'),
        ("AUTH_SMS_TEST_OTP", "hunter2"),
        ("AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", "hunter2"),
        ("AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", "k:hunter2"),
        ("DATABASE_URL", "mysql://hunter2"),
        ("DATABASE_URL", "embedded:"),
    ],
)
def test_a_refused_secret_is_not_shown(name: str, value: str) -> None:
    problem = only_problem(**{name: value})
    assert problem.startswith(f"{name}: ")
    assert "hunter2" not in problem


def test_a_value_that_spans_lines_stays_on_one_line_of_the_report() -> None:
    assert (
        only_problem(AUTH_DISABLE_SIGNUP="a\nb") == r'AUTH_DISABLE_SIGNUP: invalid bool "a\nb": must be true or false'
    )


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("AUTH_MAILER_OTP_EXP", "0", "mailer.otp_exp", seconds(86400)),
        ("AUTH_MAILER_TEMPLATE_MAX_SIZE", "0", "mailer.template_max_size", 1_000_000),
        ("AUTH_SMS_OTP_EXP", "0", "sms.otp_exp", seconds(60)),
        ("AUTH_SMS_MAX_FREQUENCY", "0", "sms.max_frequency", seconds(60)),
        ("AUTH_SMS_TEMPLATE", "", "sms.template", "Your code is {{ .Code }}"),
        ("AUTH_MFA_PHONE_TEMPLATE", "", "mfa.phone_template", "Your code is {{ .Code }}"),
        ("AUTH_MFA_PHONE_MAX_FREQUENCY", "0", "mfa.phone_max_frequency", seconds(60)),
        ("AUTH_SMS_TEST_OTP", " ", "sms.test_codes", {}),
        ("AUTH_SMS_TEST_OTP_VALID_UNTIL", " ", "sms.test_codes_end_at", None),
        ("AUTH_INTERNAL_HTTP_TIMEOUT", "0", "api.internal_http_timeout", seconds(10)),
        ("AUTH_SMTP_MAX_FREQUENCY", "0", "smtp.max_frequency", None),
        ("AUTH_JWT_EXP", "0", "jwt.exp", seconds(3600)),
        ("AUTH_JWT_ADMIN_ROLES", " ", "jwt.admin_roles", ("service_role", "svc_admin")),
        ("AUTH_JWT_ADMIN_ROLES", ",", "jwt.admin_roles", ("service_role", "svc_admin")),
        ("AUTH_SECURITY_CAPTCHA_TIMEOUT", "0", "captcha.timeout", seconds(10)),
        ("AUTH_MAILER_URLPATHS_INVITE", "", "mailer.url_paths", {}),
        ("AUTH_MAILER_SUBJECTS_INVITE", "", "mailer.subjects", {}),
        ("AUTH_JWT_KEYS", " ", "jwt.keys", ()),
        ("AUTH_TRUSTED_PROXIES", "", "api.trusted_proxies", ()),
        ("AUTH_CORS_ALLOWED_HEADERS", "  ", "api.cors_allowed_headers", ()),
        ("AUTH_CORS_ALLOWED_HEADERS", "a, b,,", "api.cors_allowed_headers", ("a", " b", "", "")),
        ("AUTH_TRACING_EXPORTER", "", "telemetry.tracing_exporter", "opentelemetry"),
        ("DEBUG", "1", "telemetry.debug", False),
    ],
)
def test_values_at_the_edge(name: str, value: str, path: str, expected: object) -> None:
    assert attrgetter(path)(load(**{name: value})) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("AUTH_PASSWORD_MIN_LENGTH", "3", "must be at least 6 bytes of UTF-8, was 3"),
        ("AUTH_PASSWORD_MIN_LENGTH", "-3", "must be at least 6 bytes of UTF-8, was -3"),
        ("AUTH_MAILER_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MAILER_OTP_LENGTH", "5", "must be between 6 and 10 digits, was 5"),
        ("AUTH_SMS_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MFA_PHONE_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MFA_CHALLENGE_EXPIRY_DURATION", "299", "must be at least 300, was 299"),
        ("AUTH_MFA_FACTOR_EXPIRY_DURATION", "-1h", "must be at least 5m, was -1h"),
        ("AUTH_EXTERNAL_FLOW_STATE_EXPIRY_DURATION", "10s", "must be at least 5m, was 10s"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: str, expected: str) -> None:
    assert only_problem(**{name: value}) == f"{name}: {expected}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a:b:c", ("a", "b", "c")),
        (r"a\:b:c", ("a:b", "c")),
        (r"\:a:b:c", (":a", "b", "c")),
        (r"a:b:c\:", ("a", "b", "c:")),
        (r"::\::", (":",)),
        ("", ()),
        (" ", (" ",)),
        (r"a\b", (r"a\b",)),
    ],
)
def test_required_characters_are_sets_between_colons(value: str, expected: tuple[str, ...]) -> None:
    assert load(AUTH_PASSWORD_REQUIRED_CHARACTERS=value).passwords.required_characters == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1800", conf.Rate(events=1800)),
        ("1800.0", conf.Rate(events=1800)),
        ("3600/1h", conf.Rate(events=3600, over=seconds(3600))),
        ("100/24h", conf.Rate(events=100, over=timedelta(days=1))),
        ("0/1h", conf.Rate(events=0, over=seconds(3600))),
        ("5/0", conf.Rate(events=5, over=seconds(3600))),
        ("5/-1s", conf.Rate(events=5, over=seconds(3600))),
    ],
)
def test_rates_are_windows_or_buckets(value: str, expected: conf.Rate) -> None:
    assert load(AUTH_RATE_LIMIT_EMAIL_SENT=value).limits.email_sent == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", 'rate: value does not match rate syntax ""'),
        ("1h", 'rate: value does not match rate syntax "1h"'),
        ("1/2/3", 'rate: value does not match rate syntax "1/2/3"'),
        ("/", 'rate: events part of rate value "/" failed to parse'),
        ("/1h", 'rate: events part of rate value "/1h" failed to parse'),
        ("3600.0/1h", 'rate: events part of rate value "3600.0/1h" failed to parse'),
        ("4503599627370496/1h", 'rate: events part of rate value "4503599627370496/1h" failed to parse'),
        ("100/", 'rate: over-time part of rate value "100/" failed to parse'),
        ("100/1", 'rate: over-time part of rate value "100/1" failed to parse'),
    ],
)
def test_a_malformed_rate_is_refused(value: str, reason: str) -> None:
    assert f": {reason}" in only_problem(AUTH_RATE_LIMIT_EMAIL_SENT=value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AUTH_SESSIONS_TIMEBOX": "0"}, "conf: session timebox duration must be positive when set, was 0s"),
        ({"AUTH_SESSIONS_TIMEBOX": "-1h"}, "conf: session timebox duration must be positive when set, was -1h0m0s"),
        (
            {"AUTH_SESSIONS_INACTIVITY_TIMEOUT": "-1s"},
            "conf: session inactivity timeout duration must be positive when set, was -1s",
        ),
        (
            {"AUTH_SESSIONS_ALLOW_LOW_AAL": "0s"},
            "conf: session allow low AAL duration must be positive when set, was 0s",
        ),
        ({"AUTH_URI_ALLOW_LIST": "https://ok/*,https://[x"}, 'invalid pattern "https://[x": '),
        ({"AUTH_DB_NAMESPACE": "1a"}, "AUTH_DB_NAMESPACE: must be letters"),
        (
            {"AUTH_DB_MAX_POOL_SIZE": "5"},
            "AUTH_DB_MAX_POOL_SIZE: must be at least 6 connections, or 0 for no limit, was 5",
        ),
        (
            {"AUTH_DB_MAX_POOL_SIZE": "1", "AUTH_MAILER_WORKER_ENABLED": "false"},
            "AUTH_DB_MAX_POOL_SIZE: must be at least 2 connections, or 0 for no limit, was 1",
        ),
        (
            {
                "AUTH_DB_MAX_POOL_SIZE": "8",
                "AUTH_INDEX_WORKER_MAX_USERS_THRESHOLD": "1",
                "AUTH_METRICS_ENABLED": "true",
            },
            "AUTH_DB_MAX_POOL_SIZE: must be at least 9 connections, or 0 for no limit, was 8",
        ),
        ({"AUTH_DB_NAMESPACE": 'a"b'}, "AUTH_DB_NAMESPACE: must be letters"),
        (
            {"AUTH_MAILER_AUTOCONFIRM": "1", "AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS": "1"},
            "cannot enable both AUTH_MAILER_AUTOCONFIRM and AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
        ),
        ({"AUTH_SMTP_HOST": "mail", "AUTH_SMTP_PORT": "25"}, "required key AUTH_SMTP_ADMIN_EMAIL missing value"),
        ({"AUTH_SMTP_HOST": "mail", "AUTH_SMTP_ADMIN_EMAIL": "a@b"}, "required key AUTH_SMTP_PORT missing value"),
        ({"AUTH_MAILER_BACKEND": "a.B"}, "required key AUTH_SMTP_ADMIN_EMAIL missing value"),
        ({"AUTH_SECURITY_CAPTCHA_ENABLED": "1"}, "captcha provider secret is empty"),
        (
            {"AUTH_SECURITY_CAPTCHA_ENABLED": "1", "AUTH_SECURITY_CAPTCHA_SECRET": " "},
            "captcha provider secret is empty",
        ),
        (
            {
                "AUTH_SECURITY_CAPTCHA_ENABLED": "1",
                "AUTH_SECURITY_CAPTCHA_SECRET": "s",
                "AUTH_SECURITY_CAPTCHA_PROVIDER": "x",
            },
            "unsupported captcha provider: x",
        ),
        (
            {"AUTH_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION": "3"},
            "refresh token algorithm version must be 0, 1 or 2 but was 3",
        ),
        (
            {"AUTH_SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE": "101"},
            "refresh token upgrade percentage must be between 0 and 100, but was 101",
        ),
        (
            {"AUTH_SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS": f"k:{KEY[:-2]}"},
            'conf: decryption key with ID "k" must be 256 bits',
        ),
        (
            {"AUTH_PASSWORD_HIBP_BLOOM_ENABLED": "true", "AUTH_PASSWORD_HIBP_BLOOM_ITEMS": "0"},
            "AUTH_PASSWORD_HIBP_BLOOM_ITEMS: must be between 1 and 10000000",
        ),
        (
            {"AUTH_PASSWORD_HIBP_BLOOM_ENABLED": "true", "AUTH_PASSWORD_HIBP_BLOOM_ITEMS": "10000001"},
            "AUTH_PASSWORD_HIBP_BLOOM_ITEMS: must be between 1 and 10000000",
        ),
        (
            {"AUTH_PASSWORD_HIBP_BLOOM_ENABLED": "true", "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES": "1"},
            "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES: must be at least 1e-12 and less than 1",
        ),
        (
            {"AUTH_PASSWORD_HIBP_BLOOM_ENABLED": "true", "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES": "0"},
            "AUTH_PASSWORD_HIBP_BLOOM_FALSE_POSITIVES: must be at least 1e-12 and less than 1",
        ),
    ],
)
def test_a_broken_rule_is_refused(variables: dict[str, str], expected: str) -> None:
    problem = only_problem(**variables)
    assert expected in problem
    assert "AUTH_" in problem


def test_column_encryption_needs_its_keys() -> None:
    variables = {
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT": "true",
        "AUTH_SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY": f"{KEY}=",
    }
    prefix = "AUTH_SECURITY_DB_ENCRYPTION"
    assert problems(REQUIRED | variables) == [
        f"{prefix}_ENCRYPTION_KEY_ID: conf: encryption key ID must be specified",
        f"{prefix}_ENCRYPTION_KEY: conf: encryption key is not 256 bits",
        f"{prefix}_DECRYPTION_KEYS: conf: encryption key must also be present in decryption keys",
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], "no signing key detected"),
        ([OCT, EC], "no signing key detected"),
        ([RSA, RSA | {"kid": "r2"}], "multiple signing keys detected, only 1 signing key is supported"),
        ([RSA | {"alg": "ES256"}], "key 1: alg must be RS256 or RS512 for kty RSA"),
        ([RSA, EC | {"alg": "none"}], "key 2: alg must be ES256 or ES512 for kty EC"),
        ([RSA, OCT | {"kty": "DSA"}], "key 2: kty must be one of RSA, EC, OKP, oct"),
        ([RSA, OCT | {"kid": 1}], "key 2: kid must be a string"),
        ([RSA, OCT | {"key_ops": "verify"}], "key 2: key_ops must be an array of strings"),
        ([RSA, OCT | {"key_ops": None}], "key 2: key_ops must be an array of strings"),
        ([EC | {"key_ops": ["sign"]}], "key 1: a signing key of kty EC needs crv, d, x, y"),
        ([RSA, RSA | {"aws:kms:arn": "arn"}], "multiple signing keys"),
        ([RSA, EC | {"aws:kms:arn": "arn"}], "key 2: keys held in AWS KMS are not supported"),
    ],
)
def test_a_key_set_that_cannot_be_used_is_refused(keys: list[dict[str, Any]], expected: str) -> None:
    found = problems(REQUIRED | {"AUTH_JWT_KEYS": json.dumps(keys)})
    assert any(expected in problem for problem in found)
    assert all(problem.startswith("AUTH_JWT_KEYS: ") for problem in found)


@pytest.mark.parametrize(
    ("variables", "level", "message"),
    [
        ({"AUTH_JWT_KEYS": ""}, "info", "access tokens are signed with HS256"),
        ({"AUTH_JWT_KEYS": json.dumps([OCT | {"key_ops": ["sign"]}])}, "info", "access tokens are signed with HS256"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA | {"alg": "RS512"}])}, "warning", "signed with RS512"),
        ({"AUTH_JWT_KEYS": json.dumps([P521])}, "warning", "signed with ES512"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA, EC | {"kty": "OKP"}])}, "warning", "an OKP key is published"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA, OCT, OCT])}, "warning", "several keys have the same kid"),
        ({"AUTH_JWT_DEFAULT_GROUP_NAME": ""}, "warning", UNSUPPORTED.format("AUTH_JWT_DEFAULT_GROUP_NAME")),
        ({"AUTH_JWT_ADMIN_GROUP_NAME": "x"}, "warning", UNSUPPORTED.format("AUTH_JWT_ADMIN_GROUP_NAME")),
        ({"AUTH_MULTI_INSTANCE_MODE": "x"}, "warning", UNSUPPORTED.format("AUTH_MULTI_INSTANCE_MODE")),
        ({"AUTH_SERVER": "gunicorn"}, "warning", UNSUPPORTED.format("AUTH_SERVER")),
        ({"AUTH_OPERATOR_TOKEN": "x"}, "warning", UNSUPPORTED.format("AUTH_OPERATOR_TOKEN")),
        ({"AUTH_API_ENDPOINT": "x"}, "warning", UNSUPPORTED.format("AUTH_API_ENDPOINT")),
        (
            {"AUTH_EXPERIMENTAL_PROVIDERS_WITH_OWN_LINKING_DOMAIN": "x"},
            "warning",
            "OWN_LINKING_DOMAIN is replaced by AUTH_EXPERIMENTAL_PROVIDER_LINKING_DOMAINS",
        ),
        ({"AUTH_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION": "0"}, "warning", "version 2"),
        ({"AUTH_SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE": "50"}, "warning", "every legacy session"),
        ({"AUTH_SMS_PROVIDER": "pigeon"}, "warning", 'unknown SMS provider "pigeon"'),
        ({"AUTH_SMS_PROVIDER": "twilio"}, "warning", "missing Twilio account SID"),
        ({"AUTH_SMTP_HEADERS": "hunter2"}, "warning", 'AUTH_SMTP_HEADERS: invalid JSON "***": not JSON'),
        (
            {"AUTH_MAILER_EMAIL_VALIDATION_SERVICE_HEADERS": "hunter2"},
            "warning",
            'AUTH_MAILER_EMAIL_VALIDATION_SERVICE_HEADERS: invalid JSON "***": not JSON',
        ),
        (
            {"AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX": '{"a": 1}'},
            "warning",
            "AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX: invalid JSON",
        ),
        ({"AUTH_MAILER_EMAIL_VALIDATION_BLOCKED_MX": '["mx"]'}, "warning", "without effect unless"),
        ({"AUTH_MAILER_EMAIL_VALIDATION_SERVICE_URL": "checker:25"}, "warning", "addresses are not validated"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a"}, "warning", 'invalid map "a"'),
        ({"AUTH_MAILER_BACKEND_OPTIONS": '{"a": 1}'}, "warning", "without effect unless AUTH_MAILER_BACKEND is set"),
        ({"AUTH_EXTERNAL_APPLE_URL": "https://x"}, "warning", "the setting is ignored"),
    ],
)
def test_a_doubt_is_a_notice_and_the_start_goes_on(variables: dict[str, str], level: str, message: str) -> None:
    (notice,) = load(**{"AUTH_JWT_KEYS": json.dumps([RSA])} | variables).notices
    assert message in notice.message
    assert notice.level == level
    assert notice.fields["setting"] in variables
    assert "hunter2" not in repr(notice)


def test_settings_without_a_doubt_make_no_notice() -> None:
    assert load(AUTH_JWT_KEYS=json.dumps([RSA])).notices == ()


def test_an_enabled_provider_with_missing_values_is_refused() -> None:
    variables = {"AUTH_EXTERNAL_KEYCLOAK_ENABLED": "true", "AUTH_EXTERNAL_KEYCLOAK_SECRET": "s"}
    advice = "set it, or AUTH_EXTERNAL_KEYCLOAK_ENABLED=false"
    assert problems(REQUIRED | variables) == [
        f"required key AUTH_EXTERNAL_KEYCLOAK_{part} missing value: {advice}"
        for part in ("CLIENT_ID", "REDIRECT_URI", "URL")
    ]


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("AUTH_JWT_SECRTE", "AUTH_JWT_SECRET"),
        ("AUTH_EXTERNAL_GITHUB_CLIENTID", "AUTH_EXTERNAL_GITHUB_CLIENT_ID"),
        ("AUTH_MAILER_SUBJECT_INVITE", "AUTH_MAILER_SUBJECTS_INVITE"),
        ("AUTH_WEB_CONCURRENCY", "WEB_CONCURRENCY"),
        ("AUTH_QQQQ", ""),
    ],
)
def test_an_unknown_variable_is_a_warning_with_the_most_similar_name(name: str, similar: str) -> None:
    (notice,) = load(AUTH_JWT_KEYS=json.dumps([RSA]), **{name: "hunter2"}).notices
    hint = f", did you mean {similar}?" if similar else ""
    assert (notice.level, notice.message) == ("warning", f"{name} is not a setting and has no effect{hint}")


@pytest.mark.parametrize("name", ["AUTH_OTEL_SERVICE_NAME", "AUTH_EXTERNAL_REDIRECTURL", "AUTHSVC_X", "OTHER"])
def test_a_known_or_foreign_variable_is_no_warning(name: str) -> None:
    assert load(AUTH_JWT_KEYS=json.dumps([RSA]), **{name: "x"}).notices == ()


@pytest.mark.parametrize("switch", ["PASSKEY_ENABLED", "MFA_WEB_AUTHN_ENROLL_ENABLED", "MFA_WEB_AUTHN_VERIFY_ENABLED"])
def test_webauthn_needs_what_verifies_it(monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setitem(sys.modules, "webauthn", None)  # as if it were not installed
    load()
    problem = only_problem(**{f"AUTH_{switch}": "true"})
    assert problem == f"AUTH_{switch}: needs the extra passkeys: pip install -r requirements.server.lock"


@pytest.mark.parametrize("switch", ["PASSKEY_ENABLED", "MFA_WEB_AUTHN_ENROLL_ENABLED", "MFA_WEB_AUTHN_VERIFY_ENABLED"])
@pytest.mark.parametrize("missing", ["RP_ID", "RP_DISPLAY_NAME", "RP_ORIGINS"])
def test_webauthn_without_a_whole_relying_party_is_a_notice(switch: str, missing: str) -> None:
    party = {f"AUTH_WEBAUTHN_{part}": "https://x" for part in ("RP_ID", "RP_DISPLAY_NAME", "RP_ORIGINS")}
    given = {"AUTH_JWT_KEYS": json.dumps([RSA]), **party}
    assert load(**given, **{f"AUTH_{switch}": "true"}).notices == ()
    del given[f"AUTH_WEBAUTHN_{missing}"]
    assert load(**given).notices == ()
    (notice,) = load(**given, **{f"AUTH_{switch}": "true"}).notices
    assert (notice.level, notice.message) == ("warning", "WebAuthn configuration is invalid")
    assert notice.fields["error"] == f"conf: AUTH_WEBAUTHN_{missing} is required when WebAuthn is enabled"


def test_secrets_do_not_show_in_the_settings() -> None:
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


def test_djangos_secret_key_depends_on_the_secret_and_does_not_contain_it() -> None:
    one, other = conf.secret_key(load()), conf.secret_key(load(AUTH_JWT_SECRET="other"))
    assert len(one) == 64
    assert one == conf.secret_key(load())
    assert one != other
    assert "hunter2" not in one


def test_the_environment_beats_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AUTH_JWT_EXP=100\nAUTH_JWT_AUD=file\n")
    jwt = load(AUTH_JWT_EXP="200").jwt
    assert (jwt.exp, jwt.aud, jwt.issuer) == (seconds(200), "file", "")


def test_a_chosen_file_is_read_in_place_of_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AUTH_JWT_AUD=usual\nAUTH_JWT_ISSUER=usual\n")
    (tmp_path / "f.env").write_text("AUTH_JWT_AUD=a\nAUTH_JWT_KEY_ID=a\n")
    jwt = load(AUTHSVC_CONFIG_FILE=str(tmp_path / "f.env"), AUTH_JWT_AUD="b").jwt
    assert (jwt.aud, jwt.issuer, jwt.key_id) == ("b", "", "a")


def test_a_chosen_file_must_exist(tmp_path: Path) -> None:
    assert only_problem(AUTHSVC_CONFIG_FILE=str(tmp_path / "missing.env")).endswith("No such file or directory")


@pytest.mark.parametrize("content", [b"AUTH_JWT_SECRET='hunter2", b"hunter2", b"hunter2=\xff"])
def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".env").write_bytes(content)
    problem = only_problem()
    assert problem.startswith(".env: ")
    assert "hunter2" not in problem


def test_a_folder_in_place_of_the_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert only_problem() == ".env: Is a directory"


def _fill(folder: Path, files: dict[str, str]) -> dict[str, str]:
    for name, content in files.items():
        (folder / name).write_text(content)
    return {"AUTHSVC_CONFIG_DIR": str(folder)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "10_base.json": '{"AUTH_JWT_AUD": "1", "AUTH_JWT_ISSUER": "1"}',
                "50.env": "AUTH_JWT_ISSUER=2\nAUTH_JWT_KEY_ID=2",
                "80.json": '{"AUTH_JWT_KEY_ID": "3"}',
            },
            ("1", "2", "3"),
        ),
        ({"50.env": "AUTH_JWT_AUD=env", "50.json": '{"AUTH_JWT_KEY_ID": "json"}'}, ("environment", "", "json")),
        ({"50.env.bak": "AUTH_JWT_AUD=x", "a.json.tmp": "x", "a.toml": "x", "b.yaml": "x"}, ("environment", "", "")),
        ({"B.env": "AUTH_JWT_AUD=upper", "a.env": "AUTH_JWT_AUD=lower"}, ("lower", "", "")),
    ],
)
def test_the_directory_lies_over_the_environment(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, str, str]
) -> None:
    (tmp_path / "folder.env").mkdir()
    settings = load(**_fill(tmp_path, files), AUTH_JWT_AUD="environment")
    assert (settings.jwt.aud, settings.jwt.issuer, settings.jwt.key_id) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", '{"AUTH_JWT_AUD": 1}'), ("a.json", '{"AUTH_JWT_AUD": "x"} x'), ("a.json", "[]"), ("a.env", "nonsense")],
)
def test_a_directory_that_cannot_be_used_is_an_error_line(tmp_path: Path, name: str, content: str) -> None:
    settings = load(**_fill(tmp_path, {name: content, "z.env": "AUTH_JWT_AUD=z"}))
    assert settings.jwt.aud == ""
    assert settings.notices[0].message == "unable to load config from watch dir"
    assert settings.notices[0].level == "error"
    assert name in settings.notices[0].fields["error"]


def test_a_missing_directory_is_an_error_line() -> None:
    (notice, *_) = load(AUTHSVC_CONFIG_DIR="missing").notices
    assert notice == Notice(
        level="error", message="unable to load config from watch dir", fields={"error": "No such file or directory"}
    )


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


@pytest.mark.parametrize(
    ("text", "expected", "canonical"),
    [
        ("0", seconds(0), "0s"),
        ("-0", seconds(0), "0s"),
        ("10s", seconds(10), "10s"),
        ("1h30m", seconds(5400), "1h30m0s"),
        ("90m", seconds(5400), "1h30m0s"),
        ("1.5s", seconds(1.5), "1.5s"),
        (".5m", seconds(30), "30s"),
        ("1.h", seconds(3600), "1h0m0s"),
        ("-1h", seconds(-3600), "-1h0m0s"),
        ("+2m3.004s", seconds(123.004), "2m3.004s"),
        ("300ms", seconds(0.3), "300ms"),
        ("1500us", seconds(0.0015), "1.5ms"),
        ("20µs", timedelta(microseconds=20), "20µs"),
        ("20μs", timedelta(microseconds=20), "20µs"),
        ("1500ns", timedelta(microseconds=2), "2µs"),
        ("499ns", timedelta(), "0s"),
        ("24h", timedelta(days=1), "24h0m0s"),
    ],
)
def test_durations_are_read_and_written(text: str, expected: timedelta, canonical: str) -> None:
    assert durations.parse(text) == expected
    assert durations.text(expected) == canonical
    assert durations.parse(canonical) == expected


@pytest.mark.parametrize(
    "text",
    ["", "-", "10", "1d", "s", ".s", "1.2.3s", "1s2", " 1s", "1 s", "1S", "--1s", "1e3s", "2562048h", "9" * 41 + "ns"],
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"need|long"):
        durations.parse(text)


def manage(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "probe_settings.py").write_text(
        "from authsvc import conf\n"
        "AUTH = conf.load()\n"
        "INSTALLED_APPS = []\n"
        "print('loaded', AUTH.jwt.aud, AUTH.jwt.key_id)\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{folder}:{ROOT}",
        "DJANGO_SETTINGS_MODULE": "probe_settings",
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=folder, env=environment | variables, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip


def test_manage_says_in_one_line_of_json_what_is_wrong(tmp_path: Path) -> None:
    variables = REQUIRED | {"AUTH_DISABLE_SIGNUP": "yes", "AUTH_JWT_KEYS": "hunter2", "AUTH_SITE_URL": ""}
    done = manage(tmp_path, "check", **variables)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    line = json.loads(done.stderr)
    assert (line["level"], line["msg"]) == ("fatal", "unable to load config")
    assert line["error"].splitlines() == [
        f"required key AUTH_SITE_URL missing value: {line['error'].splitlines()[0].partition(': ')[2]}",
        'AUTH_JWT_KEYS: invalid key set "***": not JSON',
        'AUTH_DISABLE_SIGNUP: invalid bool "yes": must be true or false',
    ]
    assert line["time"].endswith("Z")
    assert "hunter2" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ("-c", "f.env", "-d", "conf"),
        ("--config", "f.env", "--config-dir", "conf"),
        ("--config=f.env", "--config-dir=conf"),
    ],
)
@pytest.mark.parametrize("is_command_first", [True, False])
def test_manage_takes_the_files_from_its_flags(tmp_path: Path, flags: tuple[str, ...], is_command_first: bool) -> None:
    (tmp_path / "f.env").write_text("AUTH_JWT_AUD=from-file")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "1.env").write_text("AUTH_JWT_KEY_ID=from-dir")
    done = manage(tmp_path, *(("check", *flags) if is_command_first else (*flags, "check")), **REQUIRED)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "loaded from-file from-dir")


def test_manage_leaves_other_commands_their_short_flags(tmp_path: Path) -> None:
    done = manage(tmp_path, "shell", "-c", "print(6 * 7)", **REQUIRED)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "42")


def test_manage_wants_a_path_behind_its_flags(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "-c", **REQUIRED)
    assert (done.returncode, done.stderr) == (1, "manage.py: -c needs a path\n")


def test_manage_helps_without_settings(tmp_path: Path) -> None:
    done = manage(tmp_path, "help")
    assert done.returncode == 0
    assert "Type 'manage.py help <subcommand>'" in done.stdout
