"""The configuration of the service: `load()` reads every source, checks the whole, and returns one frozen value.

`sources` says where variables come from, `dotenv` and `values` what their text means, `env` how they are named,
`sections` which field each fills, `rules` what must hold between them; `schema` is what everybody else looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.core.exceptions import ImproperlyConfigured

from authsvc.core import deprecations
from authsvc.core.config import env, rules, schema, sections, sources


def load(environ: Mapping[str, str] | None = None) -> schema.AuthConfig:
    """The settings in `environ` (the process environment when None) and in the files that belong to it.

    Raises ImproperlyConfigured with one line for each problem found, naming the variable and showing no secret.
    """
    merged, said = sources.merge(env.process_environment() if environ is None else environ)
    variables = env.Variables(merged)
    config = sections.build(variables)
    rules.check(config, variables)
    if variables.problems:
        raise ImproperlyConfigured("\n".join(variables.problems))
    return replace(config, notices=(*said, *deprecations.find(merged), *variables.notices))


def origin(config: schema.AuthConfig) -> str:
    """Scheme, host and port of this service as browsers see it (RFC 6454 §6.1)."""
    parts = urlsplit(config.api.external_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def secret_key(config: schema.AuthConfig) -> str:
    """Django's SECRET_KEY: 64 hex digits derived from JWT_SECRET for this purpose alone (HKDF-SHA256, RFC 5869)."""
    derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"authsvc:django-secret-key")
    return derivation.derive(config.jwt.secret.reveal().encode()).hex()
