"""What must hold for the settings beyond the type of each: refusals, and warnings about what looks wrong."""

from __future__ import annotations

import importlib.util
import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from authsvc.conf import durations, schema, values
from authsvc.conf.deprecations import Notice
from authsvc.conf.env import PREFIX, Variables
from authsvc.security import crypto, redirects

_NAMESPACE = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*)?")
_DATABASE_SCHEMES = ("postgres://", "postgresql://")
_EMBEDDED = "embedded:"
_CAPTCHA_PROVIDERS = frozenset({"hcaptcha", "turnstile"})
_KEY_BYTES = 32
# What ends a process, what the system itself sends, and what opens the log again is not to be had.
_FREE_SIGNALS = frozenset(
    {signal.SIGUSR1, signal.SIGWINCH, *range(getattr(signal, "SIGRTMIN", 1), getattr(signal, "SIGRTMAX", 0) + 1)}
)
# Together at most 128 MiB in each process.
_MOST_REMEMBERED = 10_000_000
_RAREST_MISTAKE = 1e-12

# Key type → its algorithms and the members of its private form (RFC 7518 §6, RFC 8037 §2).
_KEY_TYPES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "RSA": (frozenset({"RS256", "RS512"}), frozenset({"n", "e", "d"})),
    "EC": (frozenset({"ES256", "ES512"}), frozenset({"crv", "x", "y", "d"})),
    "OKP": (frozenset({"EdDSA"}), frozenset({"crv", "x", "d"})),
    "oct": (frozenset({"HS256"}), frozenset({"k"})),
}
_USUAL_ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA", "oct": "HS256"}
_WIDELY_VERIFIED = frozenset({"RS256", "ES256"})


def check(config: schema.AuthConfig, variables: Variables) -> None:
    """Add every broken rule to `variables.problems` and every doubt to `variables.notices`."""
    _addresses(config, variables)
    _database(config.database, variables)
    _encryption(config.database, variables)
    _signing_keys(config.jwt, variables)
    _sessions(config.sessions, variables)
    _refresh_tokens(variables)
    _breaches(config.breaches, variables)
    _mail(config, variables)
    _recipients(config.recipients, variables)
    _sms(config.sms, variables)
    _webauthn(config, variables)
    _captcha(config.captcha, variables)
    _providers(config.providers, variables)
    _custom_providers(config.custom_providers, variables)
    _reloading(config.reloading, variables)


def _addresses(config: schema.AuthConfig, variables: Variables) -> None:
    if config.api.external_url and not _is_absolute(config.api.external_url):
        variables.refuse("API_EXTERNAL_URL", "must be an absolute URL with scheme and host")
    for pattern in config.site.allow_list:
        try:
            redirects.compile_pattern(pattern)
        except ValueError as error:
            variables.refuse("URI_ALLOW_LIST", f"invalid pattern {values.quoted(pattern)}: {error}")


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.scheme and parts.hostname and (parts.port is None or parts.port))
    except ValueError:
        return False


def _database(database: schema.Database, variables: Variables) -> None:
    if variables.required("DB_DRIVER") not in ("", "postgres"):
        variables.refuse("DB_DRIVER", 'AUTH_DB_DRIVER must be "postgres"')
    url = database.url.reveal()
    is_embedded = url.startswith(_EMBEDDED) and url.strip() != _EMBEDDED
    if url and not is_embedded and not url.startswith(_DATABASE_SCHEMES):
        variables.refuse("DATABASE_URL", 'invalid URL "***": must be postgres://… or embedded:<folder>')
    if not _NAMESPACE.fullmatch(database.namespace):
        variables.refuse("DB_NAMESPACE", "must be letters, digits and underscores, with no digit in front")


def _encryption(database: schema.Database, variables: Variables) -> None:
    for key_id, secret in database.decryption_keys.items():
        if not _is_key(secret):
            variables.refuse(
                "SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS",
                f"conf: decryption key with ID {values.quoted(key_id)} must be 256 bits",
            )
    if not database.encrypt:
        return
    if not database.encryption_key_id:
        variables.refuse("SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY_ID", "conf: encryption key ID must be specified")
    if not _is_key(database.encryption_key):
        variables.refuse("SECURITY_DB_ENCRYPTION_ENCRYPTION_KEY", "conf: encryption key is not 256 bits")
    if database.encryption_key_id not in database.decryption_keys:
        variables.refuse(
            "SECURITY_DB_ENCRYPTION_DECRYPTION_KEYS", "conf: encryption key must also be present in decryption keys"
        )


def _is_key(secret: schema.Secret) -> bool:
    """Base64url without padding of 32 bytes."""
    try:
        return len(crypto.base64url_decode(secret.reveal())) == _KEY_BYTES
    except ValueError:
        return False


def _signing_keys(jwt: schema.Jwt, variables: Variables) -> None:
    for number, key in enumerate(jwt.keys, start=1):
        for fault in _faults(key):
            variables.refuse("JWT_KEYS", f"key {number}: {fault}")
    signing = [key for key in jwt.keys if _signs(key)]
    if jwt.keys and not signing:
        variables.refuse("JWT_KEYS", "no signing key detected")
    if len(signing) > 1:
        variables.refuse("JWT_KEYS", "multiple signing keys detected, only 1 signing key is supported")
    ids = Counter(str(key.get("kid", "")) for key in jwt.keys)
    for kid in (kid for kid, count in ids.items() if count > 1):
        variables.warn("JWT_KEYS", "several keys have the same kid, the last one counts", kid=kid)
    _clients(jwt.keys, signing, variables)


def _clients(keys: Sequence[Mapping[str, Any]], signing: Sequence[Mapping[str, Any]], variables: Variables) -> None:
    """What the common client libraries will make of this choice of keys."""
    algorithm = _algorithm(signing[0]) if signing else "HS256"
    if algorithm == "HS256":
        message = "access tokens are signed with HS256; asymmetric keys in AUTH_JWT_KEYS are the recommended way"
        variables.notices.append(Notice(level="info", message=message, fields={"setting": "AUTH_JWT_KEYS"}))
    elif algorithm not in _WIDELY_VERIFIED:
        variables.warn(
            "JWT_KEYS", f"access tokens are signed with {algorithm}, which common client libraries do not verify"
        )
    if any(key.get("kty") == "OKP" for key in keys):
        variables.warn("JWT_KEYS", "an OKP key is published, at which some client libraries reject the whole key set")


def _algorithm(key: Mapping[str, Any]) -> str:
    own_choice = "ES512" if key.get("crv") == "P-521" else _USUAL_ALGORITHMS.get(str(key.get("kty")), "")
    return str(key.get("alg") or own_choice)


def _faults(key: Mapping[str, Any]) -> Iterable[str]:
    if "aws:kms:arn" in key:
        yield "keys held in AWS KMS are not supported"
        return
    kty, alg, operations = key.get("kty"), key.get("alg"), key.get("key_ops")
    if not isinstance(kty, str) or kty not in _KEY_TYPES:
        yield f"kty must be one of {', '.join(_KEY_TYPES)}"
        return
    algorithms, private_members = _KEY_TYPES[kty]
    if alg is not None and alg not in algorithms:
        yield f"alg must be {' or '.join(sorted(algorithms))} for kty {kty}"
    if not isinstance(key.get("kid", ""), str):
        yield "kid must be a string"
    if not isinstance(operations, list) or not all(isinstance(operation, str) for operation in operations):
        yield "key_ops must be an array of strings"
    elif _signs(key) and not all(isinstance(key.get(member), str) for member in private_members):
        yield f"a signing key of kty {kty} needs {', '.join(sorted(private_members))}"


def _signs(key: Mapping[str, Any]) -> bool:
    operations = key.get("key_ops")
    return isinstance(operations, list) and "sign" in operations


def _sessions(sessions: schema.Sessions, variables: Variables) -> None:
    for setting, what, length in (
        ("SESSIONS_TIMEBOX", "session timebox", sessions.timebox),
        ("SESSIONS_INACTIVITY_TIMEOUT", "session inactivity timeout", sessions.inactivity_timeout),
        ("SESSIONS_ALLOW_LOW_AAL", "session allow low AAL", sessions.allow_low_aal),
    ):
        if length is not None and length <= timedelta():
            shown = durations.text(length)
            variables.refuse(setting, f"conf: {what} duration must be positive when set, was {shown}")


def _refresh_tokens(variables: Variables) -> None:
    version = variables.integer("SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION", 2)
    if not 0 <= version <= 2:
        variables.refuse(
            "SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION",
            f"refresh token algorithm version must be 0, 1 or 2 but was {version}",
        )
    elif version < 2:
        variables.warn(
            "SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION", "refresh tokens of version 2 are issued all the same"
        )
    percentage = variables.integer("SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE", 100)
    if not 0 <= percentage <= 100:
        variables.refuse(
            "SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE",
            f"refresh token upgrade percentage must be between 0 and 100, but was {percentage}",
        )
    elif percentage < 100:
        variables.warn(
            "SECURITY_REFRESH_TOKEN_UPGRADE_PERCENTAGE", "every legacy session is converted at its next refresh"
        )


def _mail(config: schema.AuthConfig, variables: Variables) -> None:
    smtp, mailer = config.smtp, config.mailer
    if mailer.autoconfirm and mailer.allow_unverified_email_sign_ins:
        variables.refuse(
            "MAILER_AUTOCONFIRM",
            "cannot enable both AUTH_MAILER_AUTOCONFIRM and AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
        )
    if smtp.host or mailer.backend:
        variables.required("SMTP_ADMIN_EMAIL")
    if smtp.host and variables.name("SMTP_PORT") is None:
        variables.required("SMTP_PORT")
    if mailer.backend_options and not mailer.backend:
        variables.warn("MAILER_BACKEND_OPTIONS", "there is no AUTH_MAILER_BACKEND to give the options to")


def _breaches(breaches: schema.Breaches, variables: Variables) -> None:
    if not breaches.bloom_enabled:
        return
    if not 0 < breaches.bloom_items <= _MOST_REMEMBERED:
        variables.refuse("PASSWORD_HIBP_BLOOM_ITEMS", f"must be between 1 and {_MOST_REMEMBERED}")
    if not _RAREST_MISTAKE <= breaches.bloom_false_positives < 1:
        variables.refuse("PASSWORD_HIBP_BLOOM_FALSE_POSITIVES", f"must be at least {_RAREST_MISTAKE} and less than 1")


def _recipients(recipients: schema.Recipients, variables: Variables) -> None:
    url = recipients.service_url
    if url and not (url.lower().startswith(("http://", "https://")) and _is_absolute(url)):
        variables.warn("MAILER_EMAIL_VALIDATION_SERVICE_URL", "not an http address, nobody will be asked")
    if recipients.blocked_exchangers and not recipients.extended_validation:
        variables.warn(
            "MAILER_EMAIL_VALIDATION_BLOCKED_MX", "without effect unless AUTH_MAILER_EMAIL_VALIDATION_EXTENDED is on"
        )


def _sms(sms: schema.Sms, variables: Variables) -> None:
    if sms.provider and not sms.is_usable:
        variables.warn("SMS_PROVIDER", sms.fault)


def _webauthn(config: schema.AuthConfig, variables: Variables) -> None:
    switches = {
        "PASSKEY_ENABLED": config.passkeys.enabled,
        "MFA_WEB_AUTHN_ENROLL_ENABLED": config.mfa.web_authn_enroll_enabled,
        "MFA_WEB_AUTHN_VERIFY_ENABLED": config.mfa.web_authn_verify_enabled,
    }
    used = [name for name, is_on in switches.items() if is_on]
    if used and importlib.util.find_spec("webauthn") is None:
        variables.refuse(used[0], "needs the extra passkeys: pip install -r requirements.server.lock")
    missing = config.webauthn.missing
    if used and missing:
        error = f"conf: {PREFIX}{missing} is required when WebAuthn is enabled"
        variables.warn(missing, "WebAuthn configuration is invalid", error=error)


def _captcha(captcha: schema.Captcha, variables: Variables) -> None:
    if not captcha.enabled:
        return
    if captcha.provider not in _CAPTCHA_PROVIDERS:
        variables.refuse("SECURITY_CAPTCHA_PROVIDER", f"unsupported captcha provider: {captcha.provider}")
    if not captcha.secret:
        variables.refuse("SECURITY_CAPTCHA_SECRET", "captcha provider secret is empty")


def _providers(providers: Mapping[str, schema.Provider], variables: Variables) -> None:
    for name, provider in providers.items():
        settings = f"EXTERNAL_{name.upper()}"
        needed = {"CLIENT_ID": provider.client_ids, "SECRET": provider.secret, "REDIRECT_URI": provider.redirect_uri}
        if name == "keycloak":
            needed["URL"] = provider.url
        missing = ", ".join(f"{PREFIX}{settings}_{part}" for part, value in needed.items() if not value)
        if provider.enabled and missing:
            variables.warn(f"{settings}_ENABLED", "the provider is enabled but cannot be used", missing=missing)
        if provider.url and name in ("apple", "google"):
            variables.warn(f"{settings}_URL", "the provider's address is fixed, the setting is ignored")


def _reloading(reloading: schema.Reloading, variables: Variables) -> None:
    if reloading.poller_interval <= timedelta():
        variables.refuse("RELOADING_POLLER_INTERVAL", "must be positive")
    if reloading.grace_period < timedelta():
        variables.refuse("RELOADING_GRACE_PERIOD_INTERVAL", "must not be negative")
    if reloading.signal_number not in _FREE_SIGNALS:
        variables.refuse("RELOADING_SIGNAL_NUMBER", "not a signal that the service has no other use for")


def _custom_providers(custom: schema.CustomProviders, variables: Variables) -> None:
    if custom.external_url and not _is_absolute(custom.external_url):
        variables.refuse("CUSTOM_OAUTH_EXTERNAL_URL", "must be an absolute URL with scheme and host")
