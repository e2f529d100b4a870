"""Problems and warnings: required settings, combinations, deprecated and unknown variables."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.authsvc.conf.variables import EC, KEY, MAIL, OCT, P521, REQUIRED, RSA, load, only_problem, problems

UNSUPPORTED = "DEPRECATION NOTICE: {} is not supported, will be removed soon"


@pytest.mark.parametrize("name", [*REQUIRED])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_required_setting_is_reported(name: str, value: str | None) -> None:
    variables = {key: text for key, text in REQUIRED.items() if key != name} | ({} if value is None else {name: value})
    (problem,) = problems(variables)
    assert problem.startswith(f"required key {name} missing value: ")


def test_every_problem_is_reported_at_once() -> None:
    errors = problems({"AUTH_DISABLE_SIGNUP": "yes", "AUTH_API_MAX_REQUEST_DURATION": "10", "AUTH_DB_DRIVER": "mysql"})
    assert [line.partition(" missing value: ")[0] for line in errors] == [
        "required key AUTH_SITE_URL",
        "required key AUTH_API_EXTERNAL_URL",
        'AUTH_API_MAX_REQUEST_DURATION: invalid duration "10": numbers need units (ns, us, ms, s, m, h), as in 1h30m',
        'AUTH_DB_DRIVER must be "postgres"',
        "required key DATABASE_URL",
        "required key AUTH_JWT_SECRET",
        'AUTH_DISABLE_SIGNUP: invalid bool "yes": must be true or false',
    ]


@pytest.mark.parametrize("name", ["AUTH_DB_DATABASE_URL", "AUTH_DATABASE_URL", "DATABASE_URL"])
def test_a_problem_names_the_variable_that_is_set(name: str) -> None:
    others = {key: text for key, text in REQUIRED.items() if key != "DATABASE_URL"}
    (empty,) = problems({**others, name: ""})
    assert empty.startswith(f"required key {name} missing value: ")
    (wrong,) = problems({**others, name: "mysql://db"})
    assert wrong.startswith(f'{name}: invalid URL "***": must be postgres://')


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
        ({"AUTH_DB_NAMESPACE": "1a"}, "AUTH_DB_NAMESPACE: must consist of at most 26 letters"),
        ({"AUTH_DB_NAMESPACE": "a" * 27}, "AUTH_DB_NAMESPACE: must consist of at most 26 letters"),
        ({"AUTH_DB_READ_REPLICA_URL": "embedded:/srv/pg"}, "AUTH_DB_READ_REPLICA_URL: must be postgres://…"),
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
        ({"AUTH_DB_NAMESPACE": 'a"b'}, "AUTH_DB_NAMESPACE: must consist of at most 26 letters"),
        (
            {"AUTH_MAILER_AUTOCONFIRM": "1", "AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS": "1"},
            "cannot enable both AUTH_MAILER_AUTOCONFIRM and AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
        ),
        ({"AUTH_SMTP_HOST": "mail", "AUTH_SMTP_PORT": "25"}, "required key AUTH_SMTP_ADMIN_EMAIL missing value"),
        ({"AUTH_SMTP_HOST": "mail", "AUTH_SMTP_ADMIN_EMAIL": "a@b"}, "required key AUTH_SMTP_PORT missing value"),
        ({"AUTH_MAILER_BACKEND": "a.B"}, "required key AUTH_SMTP_ADMIN_EMAIL missing value"),
        *(
            (
                {"AUTH_SMTP_HOST": "mail", "AUTH_SMTP_PORT": "25", "AUTH_SMTP_ADMIN_EMAIL": sender},
                "AUTH_SMTP_ADMIN_EMAIL: must be an address without a name",
            )
            for sender in ("Example <noreply@example.com>", "noreply", "a@example.com,b@example.com", "a@exämple.com")
        ),
        ({"AUTH_MAILER_RETENTION": "23h"}, "AUTH_MAILER_RETENTION: must be at least 24h"),
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
def test_an_invalid_combination_is_rejected(variables: dict[str, str], expected: str) -> None:
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
    other = KEY[::-1].replace(KEY[0], "A")
    variables |= {
        f"{prefix}_ENCRYPTION_KEY_ID": "k",
        f"{prefix}_ENCRYPTION_KEY": KEY,
        f"{prefix}_DECRYPTION_KEYS": f"k:{other}",
    }
    [problem] = problems(REQUIRED | variables)
    assert problem.startswith(f'{prefix}_DECRYPTION_KEYS: conf: the decryption key with ID "k" must be the encryption')


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
def test_an_unusable_key_set_is_rejected(keys: list[dict[str, Any]], expected: str) -> None:
    errors = problems(REQUIRED | {"AUTH_JWT_KEYS": json.dumps(keys)})
    assert any(expected in problem for problem in errors)
    assert all(problem.startswith("AUTH_JWT_KEYS: ") for problem in errors)


@pytest.mark.parametrize(
    ("variables", "level", "message"),
    [
        ({"AUTH_JWT_KEYS": ""}, "info", "access tokens are signed with HS256"),
        ({"AUTH_JWT_KEYS": json.dumps([OCT | {"key_ops": ["sign"]}])}, "info", "access tokens are signed with HS256"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA | {"alg": "RS512"}])}, "warning", "signed with RS512"),
        ({"AUTH_JWT_KEYS": json.dumps([P521])}, "warning", "signed with ES512"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA, EC | {"kty": "OKP"}])}, "warning", "an OKP key is published"),
        ({"AUTH_JWT_KEYS": json.dumps([RSA, OCT, OCT])}, "warning", "several keys have the same kid"),
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
def test_a_questionable_setting_is_a_warning(variables: dict[str, str], level: str, message: str) -> None:
    (notice,) = load(**{"AUTH_JWT_KEYS": json.dumps([RSA])} | MAIL | variables).notices
    assert message in notice.message
    assert notice.level == level
    assert notice.fields["setting"] in variables
    assert "hunter2" not in repr(notice)


def test_common_settings_cause_no_warning() -> None:
    assert load(AUTH_JWT_KEYS=json.dumps([RSA]), **MAIL).notices == ()


def test_a_service_that_can_send_no_email_is_a_warning() -> None:
    (notice,) = [notice for notice in load().notices if "no email leaves" in notice.message]
    assert (notice.level, notice.fields["setting"]) == ("warning", "AUTH_SMTP_HOST")
    inbox = load(AUTH_MAILER_DEV_INBOX_ENABLED="true")
    hook = load(AUTH_HOOK_SEND_EMAIL_ENABLED="true", AUTH_HOOK_SEND_EMAIL_URI="https://app.example.com/hook")
    for config in (inbox, hook):
        assert not [notice for notice in config.notices if "no email leaves" in notice.message]


def test_an_enabled_provider_with_missing_values_is_rejected() -> None:
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
    (notice,) = load(AUTH_JWT_KEYS=json.dumps([RSA]), **MAIL, **{name: "hunter2"}).notices
    hint = f", did you mean {similar}?" if similar else ""
    assert (notice.level, notice.message) == ("warning", f"{name} is not a setting and has no effect{hint}")


@pytest.mark.parametrize("name", ["AUTH_OTEL_SERVICE_NAME", "AUTH_EXTERNAL_REDIRECTURL", "AUTHSVC_X", "OTHER"])
def test_supported_and_foreign_variables_cause_no_warning(name: str) -> None:
    assert load(AUTH_JWT_KEYS=json.dumps([RSA]), **MAIL, **{name: "x"}).notices == ()


@pytest.mark.parametrize("switch", ["PASSKEY_ENABLED", "MFA_WEB_AUTHN_ENROLL_ENABLED", "MFA_WEB_AUTHN_VERIFY_ENABLED"])
def test_webauthn_needs_its_library(monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setitem(sys.modules, "webauthn", None)  # simulates a missing library
    load()
    problem = only_problem(**{f"AUTH_{switch}": "true"})
    assert problem == f"AUTH_{switch}: needs the extra passkeys: pip install -r requirements.server.lock"


@pytest.mark.parametrize("switch", ["PASSKEY_ENABLED", "MFA_WEB_AUTHN_ENROLL_ENABLED", "MFA_WEB_AUTHN_VERIFY_ENABLED"])
@pytest.mark.parametrize("missing", ["RP_ID", "RP_DISPLAY_NAME", "RP_ORIGINS"])
def test_webauthn_without_a_complete_relying_party_is_a_warning(switch: str, missing: str) -> None:
    party = {f"AUTH_WEBAUTHN_{part}": "https://x" for part in ("RP_ID", "RP_DISPLAY_NAME", "RP_ORIGINS")}
    variables = {"AUTH_JWT_KEYS": json.dumps([RSA]), **MAIL, **party}
    assert load(**variables, **{f"AUTH_{switch}": "true"}).notices == ()
    del variables[f"AUTH_WEBAUTHN_{missing}"]
    assert load(**variables).notices == ()
    (notice,) = load(**variables, **{f"AUTH_{switch}": "true"}).notices
    assert (notice.level, notice.message) == ("warning", "WebAuthn configuration is invalid")
    assert notice.fields["error"] == f"conf: AUTH_WEBAUTHN_{missing} is required when WebAuthn is enabled"


OAUTH_SERVER = {
    "AUTH_OAUTH_SERVER_ENABLED": "true",
    "AUTH_OAUTH_SERVER_AUTHORIZATION_PATH": "/oauth/consent",
    "AUTH_JWT_ISSUER": "https://auth.example.com",
    "AUTH_JWT_KEYS": json.dumps([RSA]),
}


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("AUTH_JWT_ISSUER", "", "without an issuer"),
        ("AUTH_JWT_ISSUER", "authsvc", "an issuer that is no URL"),
        ("AUTH_OAUTH_SERVER_AUTHORIZATION_PATH", "", "without a consent page"),
        ("AUTH_OAUTH_SERVER_DEFAULT_SCOPE", "email admin", "unsupported scopes: admin"),
    ],
)
def test_oauth_server_that_cannot_serve_clients_is_a_warning(variable: str, value: str, text: str) -> None:
    assert load(**OAUTH_SERVER, **MAIL).notices == ()
    (notice,) = load(**{**OAUTH_SERVER, variable: value}, **MAIL).notices
    assert (notice.level, notice.fields["setting"]) == ("warning", variable)
    assert text in notice.message
    assert load(**{**OAUTH_SERVER, variable: value, "AUTH_OAUTH_SERVER_ENABLED": "false"}, **MAIL).notices == ()


def test_hosted_pages_are_the_consent_page() -> None:
    variables = {**OAUTH_SERVER, "AUTH_OAUTH_SERVER_AUTHORIZATION_PATH": "", "AUTH_PAGES_ENABLED": "true"}
    assert load(**variables, **MAIL).notices == ()


def test_oauth_server_without_asymmetric_key_is_a_warning() -> None:
    notices = load(**{**OAUTH_SERVER, "AUTH_JWT_KEYS": ""}, **MAIL).notices
    assert [notice.level for notice in notices if "refuses the scope openid" in notice.message] == ["warning"]


def test_lifetime_of_authorization_requests_is_limited() -> None:
    problem = only_problem(AUTH_OAUTH_SERVER_AUTHORIZATION_TTL="0s")
    assert "AUTH_OAUTH_SERVER_AUTHORIZATION_TTL" in problem
