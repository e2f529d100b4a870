"""Which types of factors there are."""

from __future__ import annotations

from collections.abc import Mapping

from accounts import errors
from accounts.models import FactorType
from accounts.services.factors.kinds import Kind
from accounts.services.factors.phone import Phone
from accounts.services.factors.totp import Totp
from accounts.services.factors.webauthn import WebAuthn

KINDS: Mapping[str, Kind] = {FactorType.TOTP: Totp(), FactorType.PHONE: Phone(), FactorType.WEBAUTHN: WebAuthn()}


def of(factor_type: str) -> Kind:
    """Raises FactorTypeUnknown."""
    kind = KINDS.get(factor_type)
    if kind is None:
        raise errors.FactorTypeUnknown
    return kind
