"""Deployment checks: settings that fall short of current security guidance, with the setting that corrects them.

NIST is SP 800-63B-4, ASVS the OWASP Application Security Verification Standard. The id of a removed check is not
reused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from psycopg import pq

from authsvc import conf
from authsvc.conf import AuthConfig, loading
from authsvc.db import postgresql

PUBLIC_SECRET = "authsvc.E001"
_MAX_CODE_LIFETIME = timedelta(minutes=10)
_WILDCARDS = frozenset("*?[")
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployCheck:
    number: int
    applies: Callable[[AuthConfig], object]
    warning: str
    source: str
    """The requirement."""
    hint: str
    """The setting that corrects it."""

    @property
    def id(self) -> str:
        return f"authsvc.W{self.number:03}"


def _signs_with_shared_secret(config: AuthConfig) -> bool:
    signing = (key for key in config.jwt.keys if "sign" in (key.get("key_ops") or ()))
    return all(key.get("kty") == "oct" for key in signing)


def _is_database_unencrypted(config: AuthConfig) -> bool:
    if config.database.url.reveal().startswith("embedded:"):
        return False
    # PGSSLMODE is one of the defaults.
    defaults = {option.keyword: option.val or b"" for option in pq.Conninfo.get_defaults()}
    for database in postgresql.databases(config.database).values():
        mode = database["OPTIONS"].get("sslmode") or defaults[b"sslmode"].decode()
        hosts = (database["OPTIONS"].get("hostaddr") or database["HOST"]).split(",")
        is_local = all(host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1") for host in hosts)
        if not is_local and mode not in _ENCRYPTED:
            return True
    return False


CHECKS = (
    DeployCheck(
        number=1,
        applies=_signs_with_shared_secret,
        warning="Access tokens are signed with a secret that every verifier must share.",
        source="RFC 9068 §2.1, ASVS v5.0.0-11.1.1",
        hint="Set AUTH_JWT_KEYS to what `manage.py generate_keys` prints.",
    ),
    DeployCheck(
        number=2,
        applies=lambda config: len(config.jwt.secret.reveal()) < 32,
        warning="AUTH_JWT_SECRET is shorter than the 256 bits that HS256 requires.",
        source="RFC 7518 §3.2, RFC 8725 §3.5",
        hint="Set AUTH_JWT_SECRET to at least 32 random characters.",
    ),
    DeployCheck(
        number=3,
        applies=lambda config: config.passwords.min_length < 15,
        warning="Passwords of fewer than 15 characters are accepted.",
        source="NIST §3.1.1.2; ASVS v5.0.0-6.2.1 recommends it",
        hint="Set AUTH_PASSWORD_MIN_LENGTH=15, or 8 if your applications always require a second factor.",
    ),
    DeployCheck(
        number=4,
        applies=lambda config: not config.refresh.rotation_enabled or config.refresh.allow_reuse,
        warning="Reuse of refresh tokens is not detected.",
        source="RFC 9700 §4.14.2, ASVS v5.0.0-10.4.5",
        hint="Leave AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED on and AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE off.",
    ),
    DeployCheck(
        number=5,
        applies=lambda config: not config.jwt.issuer,
        warning="Access tokens have no issuer, which verifiers need to distinguish tokens.",
        source="RFC 9068 §2.2",
        hint="Set AUTH_JWT_ISSUER to the value of AUTH_API_EXTERNAL_URL.",
    ),
    DeployCheck(
        number=6,
        applies=lambda config: not config.api.external_url.startswith("https:"),
        warning="The service is reachable without TLS.",
        source="RFC 6749 §3.1 and §3.2, ASVS v5.0.0-12.2.1",
        hint="Put a TLS proxy in front and set AUTH_API_EXTERNAL_URL to its https address.",
    ),
    DeployCheck(
        number=7,
        applies=lambda config: config.mailer.dev_inbox_enabled,
        warning="All emails are publicly readable at /inbox/.",
        source="ASVS v5.0.0-13.4.2",
        hint="Unset AUTH_MAILER_DEV_INBOX_ENABLED.",
    ),
    DeployCheck(
        number=8,
        applies=lambda config: config.database.url.reveal().startswith("embedded:"),
        warning="The embedded database is for development only: the service is its superuser.",
        source="ASVS v5.0.0-13.2.2",
        hint="Set DATABASE_URL to a PostgreSQL server with backups and a role that is not a superuser.",
    ),
    DeployCheck(
        number=10,
        applies=lambda config: (
            any(provider.enabled for provider in config.providers.values())
            and not config.federation.flow_binding_enabled
        ),
        warning="A sign-in that was started in one browser can be completed in another.",
        source="RFC 9700 §4.7.1, ASVS v5.0.0-10.1.2",
        hint="Set AUTH_EXTERNAL_FLOW_BINDING_ENABLED=true.",
    ),
    DeployCheck(
        number=11,
        applies=lambda config: not config.breaches.enabled,
        warning="Passwords from known breaches are accepted.",
        source="NIST §3.1.1.2, ASVS v5.0.0-6.2.12",
        hint="Set AUTH_PASSWORD_HIBP_ENABLED=true.",
    ),
    DeployCheck(
        number=12,
        applies=lambda config: not config.passwords.update_requires_current,
        warning="A session is sufficient to change the password, without the current password.",
        source="ASVS v5.0.0-6.2.3",
        hint="Set AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD=true.",
    ),
    DeployCheck(
        number=13,
        applies=lambda config: config.sessions.inactivity_timeout is None or config.sessions.timebox is None,
        warning="Sessions have no maximum lifetime or no inactivity timeout.",
        source="NIST §2.1.3, ASVS v5.0.0-7.3.1 and v5.0.0-7.3.2",
        hint="Set AUTH_SESSIONS_TIMEBOX and AUTH_SESSIONS_INACTIVITY_TIMEOUT, for example to 720h and 168h.",
    ),
    DeployCheck(
        number=14,
        applies=lambda config: config.mailer.otp_exp > _MAX_CODE_LIFETIME,
        warning="Codes and links in emails are valid for more than ten minutes.",
        source="ASVS v5.0.0-6.5.5; NIST §4.2.1.2 allows a day for recovery",
        hint="Set AUTH_MAILER_OTP_EXP=600.",
    ),
    DeployCheck(
        number=15,
        applies=lambda config: not config.codes.max_attempts,
        warning="The number of attempts to guess a one-time code is unlimited.",
        source="NIST §3.1.3.2 and §3.2.2, ASVS v5.0.0-6.6.3",
        hint="Set AUTH_SECURITY_OTP_MAX_ATTEMPTS=10.",
    ),
    DeployCheck(
        number=16,
        applies=lambda config: not config.mailer.notifications.issuperset(conf.NOTIFICATIONS),
        warning="Users are not notified of all changes to their sign-in methods.",
        source="NIST §4.1.2.1 and §4.6, ASVS v5.0.0-6.3.7",
        hint="Set AUTH_MAILER_NOTIFICATIONS_…_ENABLED=true for every type.",
    ),
    DeployCheck(
        number=17,
        applies=lambda config: not config.signup.strict_privacy_enabled,
        warning="Some responses reveal whether an address has an account.",
        source="ASVS v5.0.0-6.3.8",
        hint="Set AUTH_SECURITY_STRICT_PRIVACY_ENABLED=true.",
    ),
    DeployCheck(
        number=18,
        applies=lambda config: not config.database.encrypt,
        warning="Authenticator app secrets are stored unencrypted in the database.",
        source="NIST §3.1.4.2",
        hint="Set AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT=true, with …_ENCRYPTION_KEY_ID, …_ENCRYPTION_KEY and"
        " …_DECRYPTION_KEYS.",
    ),
    DeployCheck(
        number=19,
        applies=lambda config: config.console.enabled and not config.console.allowed_networks,
        warning="The operator console is reachable from every address.",
        source="ASVS v5.0.0-8.4.2, as one layer of several",
        hint="Set AUTH_OPERATOR_ALLOWED_NETWORKS, or AUTH_OPERATOR_CONSOLE_ENABLED=false.",
    ),
    DeployCheck(
        number=20,
        applies=lambda config: any(_WILDCARDS & set(pattern) for pattern in config.site.allow_list),
        warning="Redirects are allowed to any address that matches a wildcard.",
        source="RFC 9700 §4.1.3, ASVS v5.0.0-10.4.1",
        hint="List complete addresses without wildcards in AUTH_URI_ALLOW_LIST.",
    ),
    DeployCheck(
        number=21,
        applies=_is_database_unencrypted,
        warning="A connection to the database or to a read replica is not encrypted.",
        source="ASVS v5.0.0-12.3.1",
        hint="Add sslmode=verify-full to DATABASE_URL and AUTH_DB_READ_REPLICA_URL.",
    ),
    DeployCheck(
        number=22,
        applies=lambda config: config.signup.email_enabled and config.signup.magic_link_enabled,
        warning="A magic link or code sent by email is sufficient to sign in.",
        source="NIST §3.1.3.1, ASVS v5.0.0-6.3.6",
        hint="Set AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED=false.",
    ),
)


@register(Tags.security, deploy=True)
def check_security_settings(**_: Any) -> list[CheckMessage]:
    """An error for each secret that is an example from documents, and a warning for each check that applies."""
    errors = [
        Error(
            f"{name} is an example from public documents.",
            hint=f"{loading.USE_OWN_SECRET.capitalize()}.",
            id=PUBLIC_SECRET,
        )
        for name in conf.current().published_secrets
    ]
    return errors + [
        Warning(f"{check.warning} ({check.source})", hint=check.hint, id=check.id)
        for check in CHECKS
        if check.applies(conf.current())
    ]
