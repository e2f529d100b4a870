"""The handlers of all factor types."""

from __future__ import annotations

from collections.abc import Mapping

from accounts.mfa import errors
from accounts.mfa.factor_types import FactorHandler
from accounts.mfa.phone_factor import Phone
from accounts.mfa.totp_factor import Totp
from accounts.mfa.webauthn_factor import WebAuthn
from accounts.models import FactorType

HANDLERS: Mapping[str, FactorHandler] = {
    FactorType.TOTP: Totp(),
    FactorType.PHONE: Phone(),
    FactorType.WEBAUTHN: WebAuthn(),
}


def handler_for(factor_type: str) -> FactorHandler:
    """The handler of a factor type. Raises FactorTypeUnknown."""
    handler = HANDLERS.get(factor_type)
    if handler is None:
        raise errors.FactorTypeUnknown
    return handler
