"""Which types of factors there are."""

from __future__ import annotations

from collections.abc import Mapping

from accounts.mfa import errors
from accounts.mfa.factor_types import Kind
from accounts.mfa.phone_factor import Phone
from accounts.mfa.totp_factor import Totp
from accounts.mfa.webauthn_factor import WebAuthn
from accounts.models import FactorType

KINDS: Mapping[str, Kind] = {FactorType.TOTP: Totp(), FactorType.PHONE: Phone(), FactorType.WEBAUTHN: WebAuthn()}


def of(factor_type: str) -> Kind:
    """Raises FactorTypeUnknown."""
    kind = KINDS.get(factor_type)
    if kind is None:
        raise errors.FactorTypeUnknown
    return kind
