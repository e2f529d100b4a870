"""The configuration of the service: `load()` reads every source, checks the whole, and returns one frozen value.

`sources` says where variables come from, `dotenv` and `values` what their text means, `env` how they are named,
`sections` which field each fills, `rules` what must hold between them; `schema` is what everybody else looks at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from authsvc.conf import deprecations, env, rules, schema, sections, sources
from authsvc.conf.sources import directory as read_directory

__all__ = [
    "current",
    "directory",
    "for_django",
    "keep",
    "load",
    "load_merged",
    "newest",
    "origin",
    "read_directory",
    "secret_key",
    "without_directory",
]


_kept: ContextVar[schema.AuthConfig | None] = ContextVar("authsvc_settings", default=None)


def current() -> schema.AuthConfig:
    """The settings that the present request or job began with; outside of both, the newest ones."""
    return _kept.get() or newest()


def newest() -> schema.AuthConfig:
    """The settings that the next request or job will use."""
    auth: schema.AuthConfig = settings.AUTH
    return auth


@contextlib.contextmanager
def keep(chosen: schema.AuthConfig | None = None) -> Iterator[None]:
    """Code that runs in the block, in this thread, sees one settings object throughout: the newest, or `chosen`."""
    token = _kept.set(chosen or newest())
    try:
        yield
    finally:
        _kept.reset(token)


def load(environ: Mapping[str, str] | None = None) -> schema.AuthConfig:
    """The settings in `environ` (the process environment when None) and in the files that belong to it.

    Raises ImproperlyConfigured with one line for each problem found, naming the variable and showing no secret.
    """
    return _built(*sources.merge(env.process_environment() if environ is None else environ))


def load_merged(variables: Mapping[str, str]) -> schema.AuthConfig:
    """The settings in `variables` and nowhere else. Raises ImproperlyConfigured as `load` does."""
    return _built(variables, [])


def _built(merged: Mapping[str, str], said: Sequence[deprecations.Notice]) -> schema.AuthConfig:
    variables = env.Variables(merged)
    config = sections.build(variables)
    rules.check(config, variables)
    if variables.problems:
        raise ImproperlyConfigured("\n".join(variables.problems))
    return replace(config, notices=(*said, *deprecations.find(merged), *variables.notices))


def directory() -> str:
    """Path of the configuration directory of this process; empty when it has none."""
    return env.process_environment().get(sources.DIRECTORY_VARIABLE, "")


def without_directory() -> dict[str, str]:
    """The variables of this process from all other sources. Raises ImproperlyConfigured."""
    return sources.without_directory(env.process_environment())


def for_django(config: schema.AuthConfig) -> dict[str, Any]:
    """Django's own settings that follow from ours, by name."""
    is_https = config.api.external_url.startswith("https:")
    return {
        "SECRET_KEY": secret_key(config),
        "SESSION_COOKIE_SECURE": is_https,
        "CSRF_COOKIE_SECURE": is_https,
        "CSRF_TRUSTED_ORIGINS": [origin(config)],  # behind a TLS proxy, requests look like plain http
    }


def origin(config: schema.AuthConfig) -> str:
    """Scheme, host and port of this service as browsers see it (RFC 6454 §6.2)."""
    parts = urlsplit(config.api.external_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def secret_key(config: schema.AuthConfig) -> str:
    """Django's SECRET_KEY: 64 hex digits derived from JWT_SECRET for this purpose alone (HKDF-SHA256, RFC 5869)."""
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"authsvc:django-secret-key")
    return derivation.derive(config.jwt.secret.reveal().encode()).hex()
