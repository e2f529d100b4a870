"""The types of settings: accepted texts, values out of range, errors."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter

import pytest

from authsvc import conf
from authsvc.conf import durations
from tests.authsvc.conf.variables import load, only_problem, seconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in "1 t T TRUE true True".split()),
        *((v, False) for v in "0 f F FALSE false False".split()),
    ],
)
def test_booleans_have_six_spellings_each(value: str, expected: bool) -> None:
    assert load(AUTH_DISABLE_SIGNUP=value).signup.disabled is expected


@pytest.mark.parametrize(
    ("value", "expected"), [("+7", 7), ("0x10", 16), ("0b111", 7), ("0o17", 15), ("010", 10), ("0X0f", 15)]
)
def test_integers_have_four_bases(value: str, expected: int) -> None:
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
def test_an_error_contains_name_type_and_value(name: str, value: str, kind: str) -> None:
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
def test_an_error_hides_the_value_of_a_secret(name: str, value: str) -> None:
    problem = only_problem(**{name: value})
    assert problem.startswith(f"{name}: ")
    assert "hunter2" not in problem


def test_an_error_shows_line_breaks_escaped() -> None:
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
def test_boundary_values_are_accepted(name: str, value: str, path: str, expected: object) -> None:
    assert attrgetter(path)(load(**{name: value})) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("AUTH_PASSWORD_MIN_LENGTH", "3", "must be between 6 and 72 characters, was 3"),
        ("AUTH_PASSWORD_MIN_LENGTH", "-3", "must be between 6 and 72 characters, was -3"),
        ("AUTH_PASSWORD_MIN_LENGTH", "73", "must be between 6 and 72 characters, was 73"),
        ("AUTH_MAILER_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MAILER_OTP_LENGTH", "5", "must be between 6 and 10 digits, was 5"),
        ("AUTH_SMS_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MFA_PHONE_OTP_LENGTH", "11", "must be between 6 and 10 digits, was 11"),
        ("AUTH_MFA_CHALLENGE_EXPIRY_DURATION", "299", "must be at least 300, was 299"),
        ("AUTH_MFA_FACTOR_EXPIRY_DURATION", "-1h", "must be at least 5m, was -1h"),
        ("AUTH_EXTERNAL_FLOW_STATE_EXPIRY_DURATION", "10s", "must be at least 5m, was 10s"),
        ("AUTH_INTERNAL_HTTP_TIMEOUT", "-1s", "must be at least 0s, was -1s"),
        ("AUTH_MAILER_TEMPLATE_MAX_AGE", "-1s", "must be at least 0s, was -1s"),
        ("AUTH_EXTERNAL_OIDC_PROVIDER_CACHE_TTL", "-1h", "must be at least 0s, was -1h"),
        ("AUTH_RELOADING_GRACE_PERIOD_INTERVAL", "-1s", "must be at least 0s, was -1s"),
        ("AUTH_PASSKEY_MAX_PASSKEYS_PER_USER", "-1", "must be at least 0 passkeys, was -1"),
    ],
)
def test_a_value_out_of_range_is_rejected(name: str, value: str, expected: str) -> None:
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
def test_required_characters_are_separated_by_colons(value: str, expected: tuple[str, ...]) -> None:
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
def test_a_malformed_rate_is_rejected(value: str, reason: str) -> None:
    assert f": {reason}" in only_problem(AUTH_RATE_LIMIT_EMAIL_SENT=value)


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
def test_durations_are_parsed_and_formatted(text: str, expected: timedelta, canonical: str) -> None:
    assert durations.parse(text) == expected
    assert durations.text(expected) == canonical
    assert durations.parse(canonical) == expected


@pytest.mark.parametrize(
    "text",
    ["", "-", "10", "1d", "s", ".s", "1.2.3s", "1s2", " 1s", "1 s", "1S", "--1s", "1e3s", "2562048h", "9" * 41 + "ns"],
)
def test_other_durations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"need|long"):
        durations.parse(text)
