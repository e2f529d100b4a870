"""The configuration of the service, read from the environment and from files as one frozen value.

Every setting is declared once, with its variable, type, default and help text, in `sections/`. `declaration` provides
the vocabulary for it and `value_types` the types; `sources` collects the variables, `loading` turns them into an
`AuthConfig`. This package imports nothing else of the project.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from authsvc.conf import loading, sources
from authsvc.conf.report import Notice, describe_error, log_notices
from authsvc.conf.sections import AuthConfig
from authsvc.conf.sections.database import Database
from authsvc.conf.sections.languages import ENGLISH
from authsvc.conf.sections.languages import folders as language_folders
from authsvc.conf.sections.languages import installed as installed_languages
from authsvc.conf.sections.mail import NOTIFICATIONS
from authsvc.conf.sections.mfa import Mfa
from authsvc.conf.sections.oauth_server import SCOPES as OAUTH_SCOPES
from authsvc.conf.sections.observability import Logging, Telemetry
from authsvc.conf.sections.pages import PAGE_LINKS
from authsvc.conf.sections.providers import PROVIDERS, Provider
from authsvc.conf.sections.service import Api, Console, Reloading, Site
from authsvc.conf.sections.sign_up import Captcha, Limits
from authsvc.conf.sections.sms import SMS_PROVIDERS, Messagebird, Sms, Textlocal, Twilio, Vonage
from authsvc.conf.sections.tokens import Jwt, Refresh
from authsvc.conf.sections.webhooks import Webhooks
from authsvc.conf.sources import export_variables, process_environment, read_directory
from authsvc.conf.types import Network, Rate, Secret

__all__ = [
    "ENGLISH",
    "NOTIFICATIONS",
    "OAUTH_SCOPES",
    "PAGE_LINKS",
    "PROVIDERS",
    "SMS_PROVIDERS",
    "Api",
    "AuthConfig",
    "Captcha",
    "Console",
    "Database",
    "Jwt",
    "Limits",
    "Logging",
    "Messagebird",
    "Mfa",
    "Network",
    "Notice",
    "Provider",
    "Rate",
    "Refresh",
    "Reloading",
    "Secret",
    "Site",
    "Sms",
    "Telemetry",
    "Textlocal",
    "Twilio",
    "Vonage",
    "Webhooks",
    "current",
    "describe_error",
    "directory",
    "export_variables",
    "installed_languages",
    "is_https",
    "keep",
    "language_folders",
    "load",
    "load_merged",
    "log_notices",
    "newest",
    "origin",
    "origins",
    "process_environment",
    "read_directory",
    "secret_key",
    "without_directory",
]


_pinned: ContextVar[AuthConfig | None] = ContextVar("authsvc_settings", default=None)


def current() -> AuthConfig:
    """The settings that the current request or job began with; outside of both, the newest ones."""
    return _pinned.get() or newest()


def newest() -> AuthConfig:
    """The settings that the next request or job will use."""
    config: AuthConfig = settings.AUTH
    return config


@contextlib.contextmanager
def keep(config: AuthConfig | None = None) -> Iterator[None]:
    """Code in the block, in this thread, uses one settings object throughout: `config`, or the newest one."""
    token = _pinned.set(config or newest())
    try:
        yield
    finally:
        _pinned.reset(token)


def load(environment: Mapping[str, str] | None = None) -> AuthConfig:
    """The settings in `environment` (that of the process when None) and in the files that it names.

    Raises ImproperlyConfigured with one line for each problem. A line names the variable and shows no secret.
    """
    return loading.load(*sources.merge(process_environment() if environment is None else environment))


def load_merged(variables: Mapping[str, str]) -> AuthConfig:
    """The settings in `variables` alone, without files. Raises ImproperlyConfigured as `load` does."""
    return loading.load(variables)


def directory() -> str:
    """Path of the configuration directory of this process; empty when it has none."""
    return process_environment().get(sources.DIRECTORY_VARIABLE, "")


def without_directory() -> dict[str, str]:
    """The variables of this process from all sources but the directory. Raises ImproperlyConfigured."""
    return sources.without_directory(process_environment())


def is_https(config: AuthConfig) -> bool:
    """Clients reach this service through TLS."""
    return config.api.external_url.startswith("https:")


def origin(config: AuthConfig) -> str:
    """Scheme, host and port of this service as browsers see it (RFC 6454 §6.2)."""
    parts = urlsplit(config.api.external_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def origins(config: AuthConfig) -> list[str]:
    """The origin of this service, and those of AUTH_MAILER_EXTERNAL_HOSTS, at which it is reached as well."""
    return [origin(config), *(f"https://{host}".lower() for host in config.mailer.external_hosts)]


def secret_key(config: AuthConfig) -> str:
    """Django's SECRET_KEY: 64 hex digits derived from JWT_SECRET for this purpose alone (HKDF-SHA256, RFC 5869)."""
    return _derive_secret_key(config.jwt.secret)


@lru_cache(maxsize=2)
def _derive_secret_key(secret: Secret) -> str:
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"authsvc:django-secret-key")
    return derivation.derive(secret.reveal().encode()).hex()
