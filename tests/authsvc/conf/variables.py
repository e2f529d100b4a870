"""Variables of a complete configuration, and helpers that load variations of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from authsvc import conf

ROOT = Path(__file__).resolve().parents[3]


REQUIRED = {
    "AUTH_SITE_URL": "https://app.example.com",
    "AUTH_API_EXTERNAL_URL": "https://auth.example.com",
    "AUTH_DB_DRIVER": "postgres",
    "DATABASE_URL": "postgres://authsvc:hunter2@db:5432/postgres",
    "AUTH_JWT_SECRET": "hunter2",
}


MAIL = {"AUTH_SMTP_HOST": "localhost", "AUTH_SMTP_PORT": "25", "AUTH_SMTP_ADMIN_EMAIL": "auth@example.com"}
"""Without a mail server there is a warning."""


KEY = base64.urlsafe_b64encode(b"k" * 32).rstrip(b"=").decode()


RSA = {"kty": "RSA", "kid": "r", "alg": "RS256", "key_ops": ["sign", "verify"], "n": "AQAB", "e": "AQAB", "d": "AQAB"}


EC = {"kty": "EC", "crv": "P-256", "kid": "e", "key_ops": ["verify"], "x": "AQAB", "y": "AQAB"}


P521 = {"kty": "EC", "crv": "P-521", "kid": "p", "key_ops": ["sign"], "x": "AQAB", "y": "AQAB", "d": "AQAB"}


OCT = {"kty": "oct", "kid": "o", "alg": "HS256", "key_ops": ["verify"], "k": "AQAB"}


def load(**variables: str) -> conf.AuthConfig:
    return conf.load(REQUIRED | variables)


def problems(variables: Mapping[str, str]) -> list[str]:
    with pytest.raises(ImproperlyConfigured) as caught:
        conf.load(variables)
    return str(caught.value).splitlines()


def only_problem(**variables: str) -> str:
    (problem,) = problems(REQUIRED | variables)
    return problem


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
