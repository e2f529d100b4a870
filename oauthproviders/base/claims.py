"""The keys of `identity_data`: what they are called, which types they have, and when they are left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from oauthproviders.errors import Unusable

_TEXTS = frozenset(
    "iss name family_name given_name middle_name nickname preferred_username profile picture website gender birthdate"
    " zoneinfo locale email phone full_name avatar_url slug provider_id user_name".split()
)
KEYS = _TEXTS | {"sub", "aud", "iat", "exp", "updated_at", "email_verified", "phone_verified", "custom_claims"}
_LONGEST_SUBJECT = 1024  # what an index entry holds, with room for the provider's name
_DEEPEST = 32


def identity_data(
    *, iss: str, sub: str | int | None, custom_claims: Mapping[str, Any] | None = None, **said: str | None
) -> dict[str, Any]:
    """Claims of a provider's own making: `said` by the key of `identity_data`, of which empty ones are left out.

    `provider_id` is the subject. `custom_claims` stand even when there are none in it. Raises Unusable for a profile
    of nobody.
    """
    unknown = said.keys() - _TEXTS
    if unknown:
        raise TypeError(f"no keys of identity_data: {', '.join(sorted(unknown))}")
    subject = _subject(sub)
    claims: dict[str, Any] = {"iss": iss, "sub": subject, **said, "provider_id": subject}
    claims = {key: value for key, value in claims.items() if value}
    if custom_claims is not None:
        claims["custom_claims"] = dict(custom_claims)
    return claims


def from_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Claims that a document states under their own names (OpenID Connect Core §5.1), and nothing else of it.

    A value of another type than its key has counts as absent. Raises Unusable for a document about nobody.
    """
    claims: dict[str, Any] = {"sub": _subject(document.get("sub"))}
    for key in _TEXTS:
        value = document.get(key)
        if isinstance(value, str) and value:
            claims[key] = value
    aud = document.get("aud")
    audiences = [aud] if isinstance(aud, str) else aud
    if isinstance(audiences, list) and audiences and all(isinstance(each, str) for each in audiences):
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


def checked(document: Any, *, depth: int = _DEEPEST) -> None:
    """Raise Unusable for what could not be kept, or not be read again: U+0000 in a text, or very deep nesting."""
    if isinstance(document, str):
        if "\0" in document:
            raise Unusable("the answer holds U+0000")
        return
    if not isinstance(document, dict | list):
        return
    if not depth:
        raise Unusable("the answer is nested too deeply")
    for inner in document:
        checked(inner, depth=depth - 1)
        if isinstance(document, dict):
            checked(document[inner], depth=depth - 1)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _subject(sub: object) -> str:
    """The subject as text, exactly as given: subjects that differ in case, or in a blank, are different people."""
    text = str(sub) if isinstance(sub, int) and not isinstance(sub, bool) else sub
    if not isinstance(text, str) or not text.strip():
        raise Unusable("the profile has no subject")
    if len(text.encode()) > _LONGEST_SUBJECT:
        raise Unusable("the subject is too long")
    return text


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
