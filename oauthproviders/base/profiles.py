"""Converts documents of providers into profiles: identity data and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from accounts.identities import external_identity
from accounts.identities.external_identity import Address, ProviderProfile
from oauthproviders.base.contract import InvalidProviderResponse

T = TypeVar("T")

_TEXTS = frozenset(
    "iss name family_name given_name middle_name nickname preferred_username profile picture website gender birthdate"
    " zoneinfo locale email phone full_name avatar_url slug provider_id user_name".split()
)
CLAIM_KEYS = _TEXTS | {"sub", "aud", "iat", "exp", "updated_at", "email_verified", "phone_verified", "custom_claims"}
_MAX_DEPTH = 32


def identity_data(
    *, iss: str, sub: str | int | None, custom_claims: Mapping[str, Any] | None = None, **values: str | None
) -> dict[str, Any]:
    """Identity data from a provider's own document: `values` by key; empty values are left out.

    `provider_id` is the subject. `custom_claims` is included even if it is empty. Raises InvalidProviderResponse for a
    profile without a subject.
    """
    unknown = values.keys() - _TEXTS
    if unknown:
        raise TypeError(f"no keys of identity_data: {', '.join(sorted(unknown))}")
    user_id = subject(sub)
    claims: dict[str, Any] = {"iss": iss, "sub": user_id, **values, "provider_id": user_id}
    claims = {key: value for key, value in claims.items() if value}
    if custom_claims is not None:
        claims["custom_claims"] = dict(custom_claims)
    return claims


def standard_claims(document: Mapping[str, Any]) -> dict[str, Any]:
    """The standard claims of a document (OpenID Connect Core §5.1), without its other keys.

    A value of a wrong type counts as absent. Raises InvalidProviderResponse for a document without a subject.
    """
    claims: dict[str, Any] = {"sub": subject(document.get("sub"))}
    for key in _TEXTS:
        value = document.get(key)
        if isinstance(value, str) and value:
            claims[key] = value
    aud = document.get("aud")
    audiences = [aud] if isinstance(aud, str) else aud
    if isinstance(audiences, list) and audiences and all(isinstance(audience, str) for audience in audiences):
        claims["aud"] = audiences
    for key in ("iat", "exp"):
        if is_number(document.get(key)):
            claims[key] = document[key]
    for key in ("email_verified", "phone_verified"):
        if document.get(key) is True:
            claims[key] = True
    if updated_at := _moment(document.get("updated_at")):
        claims["updated_at"] = updated_at
    if isinstance(document.get("custom_claims"), dict):
        claims["custom_claims"] = document["custom_claims"]
    return claims


def check_storable(document: Any, *, depth: int = _MAX_DEPTH) -> None:
    """Raises InvalidProviderResponse for values that cannot be stored as JSON: U+0000 in a text, or deep nesting."""
    if isinstance(document, str):
        if "\0" in document:
            raise InvalidProviderResponse("the response holds U+0000")
        return
    if not isinstance(document, dict | list):
        return
    if not depth:
        raise InvalidProviderResponse("the response is nested too deeply")
    for inner in document:
        check_storable(inner, depth=depth - 1)
        if isinstance(document, dict):
            check_storable(document[inner], depth=depth - 1)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_true(claim: object) -> bool:
    """True for the Boolean and for the text `true`, with which some providers write it."""
    return claim is True or claim == "true"


def convert(document: Any, schema: type[T]) -> T:
    """Convert a parsed document to `schema`. Raises InvalidProviderResponse."""
    check_storable(document)
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


def generic(document: Mapping[str, Any]) -> ProviderProfile:
    """The profile from standard claims (OpenID Connect Core §5.1), for issuers without specific rules.

    Raises InvalidProviderResponse.
    """
    email = document.get("email")
    return ProviderProfile(
        claims=standard_claims(document),
        addresses=one_address(email if isinstance(email, str) else "", verified=document.get("email_verified") is True),
    )


def subject(value: object) -> str:
    """The user's id as text. Raises InvalidProviderResponse for a value that identifies no user."""
    try:
        return external_identity.parse_subject(value)
    except external_identity.UnusableSubject as error:
        raise InvalidProviderResponse(str(error)) from None


def _moment(value: object) -> str:
    """RFC 3339 for seconds since 1970 or RFC 3339; `""` for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return value if moment.tzinfo else ""
        if is_number(value):
            return datetime.fromtimestamp(cast("float", value), UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
    return ""
