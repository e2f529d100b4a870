"""What provider files share when they turn a document about somebody into a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base import claims
from oauthproviders.errors import Unusable

Shape = TypeVar("Shape")


def shaped(document: Any, shape: type[Shape]) -> Shape:
    """A document that is parsed already as `shape`. Raises Unusable when it has another form."""
    claims.checked(document)
    try:
        return msgspec.convert(document, type=shape)
    except msgspec.ValidationError:
        # The converter's words may quote what somebody is called.
        raise Unusable("the document is not of the form that was expected") from None


def one_address(email: str | None, *, verified: bool) -> tuple[Address, ...]:
    """The addresses of somebody who has this one at most."""
    return (Address(email=email, verified=verified, primary=True),) if email else ()


def full_name(first: str | None, last: str | None) -> str:
    return f"{first or ''} {last or ''}".strip()


def picked(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Of a document what it says under these keys, whatever it is."""
    return {key: document[key] for key in keys if document.get(key) is not None}


def generic(document: Mapping[str, Any], *, verified: bool = False) -> ProviderProfile:
    """What a document says in the words of OpenID Connect Core §5.1, from an issuer that nothing more is known of.

    `verified` is for an issuer that gives out no address it has not seen to work. Raises Unusable.
    """
    email = document.get("email")
    return ProviderProfile(
        claims=claims.from_document(document),
        addresses=one_address(
            email if isinstance(email, str) else "", verified=verified or document.get("email_verified") is True
        ),
    )
