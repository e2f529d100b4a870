"""System checks: what must be right before the first request, and what a careful operator would mend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.utils.module_loading import import_string

from authsvc.core.config.schema import Server

_PLUGINS = {
    "SUBJECTS": "tokens.subjects.Subjects",
    "TOKEN_GRANTS": "tokens.grants.Grant",
    "PHONE_VERIFIER": "authsvc.core.messaging.PhoneVerifier",
    "CAPTCHA_EXEMPTION": "authsvc.core.web.captcha.Exemption",
    "PERSONAL_DATA": "authsvc.core.personal_data.Keeper",
}
"""Setting → the Protocol that each of its entries satisfies."""


@register(Tags.compatibility)
def plugins_are_complete(**_: Any) -> list[CheckMessage]:
    """Every plug-in entry can be imported and has the members that its Protocol names."""
    return [message for setting in _PLUGINS for message in _incomplete(setting)]


def _incomplete(setting: str) -> Iterator[CheckMessage]:
    entries = getattr(settings, setting)
    protocol = import_string(_PLUGINS[setting])
    wanted = {name for name in (*vars(protocol), *protocol.__annotations__) if not name.startswith("_")}
    for path in _paths(entries):
        try:
            plugin = import_string(path)
        except ImportError as error:
            yield Error(f"{setting}: {path} cannot be imported: {error}", id="authsvc.E001")
            continue
        missing = sorted(name for name in wanted if not hasattr(plugin, name))
        if missing:
            yield Error(f"{setting}: {path} lacks {', '.join(missing)}", id="authsvc.E002")


def _paths(entries: Any) -> list[str]:
    if isinstance(entries, dict):
        return list(entries.values())
    return entries if isinstance(entries, list) else [entries]


@register(Tags.security, deploy=True)
def defaults_that_fall_short(**_: Any) -> list[CheckMessage]:
    """Where the configuration is less than current guidance asks for; each names its source and the setting."""
    config = settings.AUTH
    concerns = (
        (
            not config.jwt.keys,
            "Access tokens are signed with a shared secret (RFC 8725 §3.5 and ASVS 5.0 §9 prefer asymmetric keys).",
            "Set AUTH_JWT_KEYS to what `manage.py generate_keys` prints.",
        ),
        (
            len(config.jwt.secret.reveal()) < 32,
            "AUTH_JWT_SECRET is shorter than the 256 bits HS256 asks for (RFC 7518 §3.2).",
            "Set AUTH_JWT_SECRET to at least 32 random characters.",
        ),
        (
            config.passwords.min_length < 8,
            "Passwords may be shorter than 8 characters (NIST SP 800-63B §3.1.1.2, ASVS 5.0 §6.2.1).",
            "Set AUTH_PASSWORD_MIN_LENGTH=8 or more.",
        ),
        (
            not config.refresh.rotation_enabled or config.refresh.allow_reuse,
            "The reuse of a refresh token is not detected (RFC 9700 §4.14.2).",
            "Leave AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED on and ALLOW_REUSE off.",
        ),
        (
            not config.jwt.issuer,
            "Access tokens name no issuer, which verifiers need to tell tokens apart (RFC 9068 §2.2).",
            "Set AUTH_JWT_ISSUER to the value of AUTH_API_EXTERNAL_URL.",
        ),
        (
            not config.api.external_url.startswith("https:"),
            "The service is reached without TLS (RFC 6749 §3.1).",
            "Put a TLS proxy in front and set AUTH_API_EXTERNAL_URL to its https address.",
        ),
        (
            config.mailer.dev_inbox_enabled,
            "Every mail can be read by everybody at /inbox/.",
            "Unset AUTH_MAILER_DEV_INBOX_ENABLED.",
        ),
        (
            config.database.url.reveal().startswith("embedded:"),
            "The embedded database is made for development.",
            "Set DATABASE_URL to a PostgreSQL that is backed up.",
        ),
        (
            config.api.server is Server.GRANIAN,
            "Granian reads a header X_Forwarded_For as X-Forwarded-For, so a client could choose its own address.",
            "Let the proxy drop header names with underscores (nginx does), or set AUTH_SERVER=gunicorn.",
        ),
        (
            any(provider.enabled for provider in config.providers.values())
            and not config.federation.flow_binding_enabled,
            "A sign-in begun in one browser may be finished in another (RFC 9700 §4.7, ASVS 5.0 §10.2.1).",
            "Set AUTH_EXTERNAL_FLOW_BINDING_ENABLED=true.",
        ),
    )
    return [
        Warning(what, hint=hint, id=f"authsvc.W{number:03}")
        for number, (falls_short, what, hint) in enumerate(concerns, 1)
        if falls_short
    ]
