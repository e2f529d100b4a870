"""Requests that verify challenges of second factors."""

from __future__ import annotations

from typing import Any

import jwt
from django.conf import settings

from tests.accounts.mfa import factor_requests
from tests.accounts.mfa.factor_requests import Owner
from tests.conftest import Api

WRONG_TOTP = (422, "mfa_verification_failed", "Invalid TOTP code entered")
TOO_OFTEN = (429, "over_request_rate_limit", "Request rate limit reached")


def expired(challenge_id: str) -> tuple[int, str, str]:
    text = f"MFA challenge {challenge_id} has expired, verify against another challenge or create a new challenge."
    return (422, "mfa_challenge_expired", text)


def try_code(api: Api, owner: Owner, code: str) -> Any:
    """A code on a new challenge."""
    return factor_requests.verify(
        api, owner.token, owner.factor.id, factor_requests.challenged(api, owner.token, owner.factor.id, {}), code
    )


def signed(claims: dict[str, Any]) -> str:
    return jwt.encode(claims, settings.AUTH.jwt.secret.reveal(), algorithm="HS256")
