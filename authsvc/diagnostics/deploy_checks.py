"""`manage.py check --deploy`: where the configuration is less than current guidance asks for, and what mends it.

NIST is SP 800-63B-4, ASVS the OWASP Application Security Verification Standard. An id stays with its concern; one that
is dropped is not used again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register

from authsvc import conf
from authsvc.conf import AuthConfig
from authsvc.db import postgresql

_LONGEST_CODE = timedelta(minutes=10)
_WILDCARDS = frozenset("*?[")
_ENCRYPTED = frozenset({"require", "verify-ca", "verify-full"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    number: int
    applies: Callable[[AuthConfig], object]
    what: str
    source: str
    """Which requirement asks for more."""
    hint: str
    """Which setting mends it."""

    @property
    def id(self) -> str:
        return f"authsvc.W{self.number:03}"


def _signs_with_a_shared_secret(config: AuthConfig) -> bool:
    signing = (key for key in config.jwt.keys if "sign" in (key.get("key_ops") or ()))
    return all(key.get("kty") == "oct" for key in signing)


def _goes_unencrypted(config: AuthConfig) -> bool:
    if config.database.url.reveal().startswith("embedded:"):
        return False
    database = postgresql.settings_from(config.database)
    host = database["HOST"]
    is_local = host.startswith("/") or host in ("", "localhost", "127.0.0.1", "::1")
    return not is_local and database["OPTIONS"].get("sslmode") not in _ENCRYPTED


CONCERNS = (
    Concern(
        number=1,
        applies=_signs_with_a_shared_secret,
        what="Access tokens are signed with a secret that whoever checks them has to share.",
        source="RFC 9068 §2.1, ASVS v5.0.0-11.1.1",
        hint="Set AUTH_JWT_KEYS to what `manage.py generate_keys` prints.",
    ),
    Concern(
        number=2,
        applies=lambda config: len(config.jwt.secret.reveal()) < 32,
        what="AUTH_JWT_SECRET is shorter than the 256 bits HS256 asks for.",
        source="RFC 7518 §3.2, RFC 8725 §3.5",
        hint="Set AUTH_JWT_SECRET to at least 32 random characters.",
    ),
    Concern(
        number=3,
        applies=lambda config: config.passwords.min_length < 15,
        what="A password of fewer than 15 characters is enough to sign in.",
        source="NIST §3.1.1.2; ASVS v5.0.0-6.2.1 recommends it",
        hint="Set AUTH_PASSWORD_MIN_LENGTH=15, or 8 where your applications always ask for a second factor.",
    ),
    Concern(
        number=4,
        applies=lambda config: not config.refresh.rotation_enabled or config.refresh.allow_reuse,
        what="The reuse of a refresh token is not detected.",
        source="RFC 9700 §4.14.2, ASVS v5.0.0-10.4.5",
        hint="Leave AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED on and AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE off.",
    ),
    Concern(
        number=5,
        applies=lambda config: not config.jwt.issuer,
        what="Access tokens name no issuer, which verifiers need to tell tokens apart.",
        source="RFC 9068 §2.2",
        hint="Set AUTH_JWT_ISSUER to the value of AUTH_API_EXTERNAL_URL.",
    ),
    Concern(
        number=6,
        applies=lambda config: not config.api.external_url.startswith("https:"),
        what="The service is reached without TLS.",
        source="RFC 6749 §3.1 and §3.2, ASVS v5.0.0-12.2.1",
        hint="Put a TLS proxy in front and set AUTH_API_EXTERNAL_URL to its https address.",
    ),
    Concern(
        number=7,
        applies=lambda config: config.mailer.dev_inbox_enabled,
        what="Every mail can be read by everybody at /inbox/.",
        source="ASVS v5.0.0-13.4.2",
        hint="Unset AUTH_MAILER_DEV_INBOX_ENABLED.",
    ),
    Concern(
        number=8,
        applies=lambda config: config.database.url.reveal().startswith("embedded:"),
        what="The embedded database is made for development: the service is its superuser.",
        source="ASVS v5.0.0-13.2.2",
        hint="Set DATABASE_URL to a PostgreSQL that is backed up, with a role that is no superuser.",
    ),
    Concern(
        number=9,
        applies=lambda config: bool(config.api.trusted_proxies),
        what="Granian reads a header X_Forwarded_For as X-Forwarded-For, so a client could choose its own address.",
        source="ASVS v5.0.0-4.1.3",
        hint="Let the proxy drop header names with underscores (nginx does), or run gunicorn.",
    ),
    Concern(
        number=10,
        applies=lambda config: (
            any(provider.enabled for provider in config.providers.values())
            and not config.federation.flow_binding_enabled
        ),
        what="A sign-in begun in one browser may be finished in another.",
        source="RFC 9700 §4.7.1, ASVS v5.0.0-10.1.2",
        hint="Set AUTH_EXTERNAL_FLOW_BINDING_ENABLED=true.",
    ),
    Concern(
        number=11,
        applies=lambda config: not config.breaches.enabled,
        what="Passwords known from breaches are accepted.",
        source="NIST §3.1.1.2, ASVS v5.0.0-6.2.12",
        hint="Set AUTH_PASSWORD_HIBP_ENABLED=true.",
    ),
    Concern(
        number=12,
        applies=lambda config: not config.passwords.update_requires_current,
        what="Whoever holds a session changes its password without the present one.",
        source="ASVS v5.0.0-6.2.3",
        hint="Set AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD=true.",
    ),
    Concern(
        number=13,
        applies=lambda config: config.sessions.inactivity_timeout is None or config.sessions.timebox is None,
        what="Sessions last for as long as they are refreshed, or for as long as they are left alone.",
        source="NIST §2.1.3, ASVS v5.0.0-7.3.1 and v5.0.0-7.3.2",
        hint="Set AUTH_SESSIONS_TIMEBOX and AUTH_SESSIONS_INACTIVITY_TIMEOUT, say 720h and 168h.",
    ),
    Concern(
        number=14,
        applies=lambda config: config.mailer.otp_exp > _LONGEST_CODE,
        what="Codes and links in mails are good for more than ten minutes.",
        source="ASVS v5.0.0-6.5.5; NIST §4.2.1.2 allows a day for recovery",
        hint="Set AUTH_MAILER_OTP_EXP=600.",
    ),
    Concern(
        number=15,
        applies=lambda config: not config.codes.max_attempts,
        what="A one-time code may be guessed at without end.",
        source="NIST §3.1.3.2 and §3.2.2, ASVS v5.0.0-6.6.3",
        hint="Set AUTH_SECURITY_OTP_MAX_ATTEMPTS=10.",
    ),
    Concern(
        number=16,
        applies=lambda config: not config.mailer.notifications.issuperset(conf.NOTIFICATIONS),
        what="Not every change of what somebody signs in with is told to them.",
        source="NIST §4.1.2.1 and §4.6, ASVS v5.0.0-6.3.7",
        hint="Set AUTH_MAILER_NOTIFICATIONS_…_ENABLED=true for every kind.",
    ),
    Concern(
        number=17,
        applies=lambda config: not config.signup.strict_privacy_enabled,
        what="Some answers tell whether an address has an account.",
        source="ASVS v5.0.0-6.3.8",
        hint="Set AUTH_SECURITY_STRICT_PRIVACY_ENABLED=true.",
    ),
    Concern(
        number=18,
        applies=lambda config: not config.database.encrypt,
        what="Secrets of authenticator apps are readable for whoever reads the database.",
        source="NIST §3.1.4.2",
        hint="Set AUTH_SECURITY_DB_ENCRYPTION_ENCRYPT=true, with …_ENCRYPTION_KEY_ID, …_ENCRYPTION_KEY and"
        " …_DECRYPTION_KEYS.",
    ),
    Concern(
        number=19,
        applies=lambda config: config.console.enabled and not config.console.allowed_networks,
        what="The operator console can be reached from every address.",
        source="ASVS v5.0.0-8.4.2, as one layer of several",
        hint="Set AUTH_OPERATOR_ALLOWED_NETWORKS, or AUTH_OPERATOR_CONSOLE_ENABLED=false.",
    ),
    Concern(
        number=20,
        applies=lambda config: any(_WILDCARDS & set(pattern) for pattern in config.site.allow_list),
        what="Users may be sent to addresses that only resemble the ones listed.",
        source="RFC 9700 §4.1.3, ASVS v5.0.0-10.4.1",
        hint="Write whole addresses, without wildcards, into AUTH_URI_ALLOW_LIST.",
    ),
    Concern(
        number=21,
        applies=_goes_unencrypted,
        what="What is said to the database may be read on the way.",
        source="ASVS v5.0.0-12.3.1",
        hint="Add sslmode=verify-full to DATABASE_URL.",
    ),
    Concern(
        number=22,
        applies=lambda config: config.signup.email_enabled and config.signup.magic_link_enabled,
        what="A mailed magic link or code is enough to sign in.",
        source="NIST §3.1.3.1, ASVS v5.0.0-6.3.6",
        hint="Set AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED=false.",
    ),
)


@register(Tags.security, deploy=True)
def defaults_that_fall_short(**_: Any) -> list[CheckMessage]:
    """A warning for each concern that applies."""
    return [
        Warning(f"{concern.what} ({concern.source})", hint=concern.hint, id=concern.id)
        for concern in CONCERNS
        if concern.applies(conf.current())
    ]
