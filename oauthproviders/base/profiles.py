"""Helpers that convert a provider's document into a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import claims
from oauthproviders.errors import InvalidProviderResponse

T = TypeVar("T")


def convert(document: Any, schema: type[T]) -> T:
    """Converts a parsed document to `schema`. Raises InvalidProviderResponse."""
    claims.check_storable(document)
    try:
        return msgspec.convert(document, type=schema)
    except msgspec.ValidationError:
        # The text of the converter's error may contain personal data.
        raise InvalidProviderResponse("the document does not have the expected schema") from None


def one_address(email: str | None, *, verified: bool) -> tuple[Address, ...]:
    """The addresses of a profile with at most one email address."""
    return (Address(email=email, verified=verified, primary=True),) if email else ()


def full_name(first: str | None, last: str | None) -> str:
    return f"{first or ''} {last or ''}".strip()


def pick(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The values of these keys that are not None."""
    return {key: document[key] for key in keys if document.get(key) is not None}


def generic(document: Mapping[str, Any], *, verified: bool = False) -> ProviderProfile:
    """The profile from standard claims (OpenID Connect Core §5.1), for issuers without specific rules.

    `verified` is for issuers that return verified addresses only. Raises InvalidProviderResponse.
    """
    email = document.get("email")
    return ProviderProfile(
        claims=claims.from_document(document),
        addresses=one_address(
            email if isinstance(email, str) else "", verified=verified or document.get("email_verified") is True
        ),
    )
