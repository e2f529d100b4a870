"""System check of the signing keys, which prevents the start with unusable keys."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured

from tokens.jwt import signing_keys


@register(Tags.security)
def keys_are_usable(**_: Any) -> list[CheckMessage]:
    try:
        signing_keys.current()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="tokens.E001")]
    return []
