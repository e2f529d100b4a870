"""Claim mapping of custom providers: additional claims and renamed claims. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from oauthproviders.base import claims
from oauthproviders.errors import InvalidProviderResponse

_EMPTY = (None, "")


def apply(
    identity_data: Mapping[str, Any], raw: Mapping[str, Any], *, allowlist: Collection[str], mapping: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds the allowed keys of the `raw` document as custom claims, and applies the mapping.

    The mapping is target → source: a text is the name of another claim, any other value is a constant. A mapping with
    an invalid result is ignored. A mapped email address counts as verified only if the mapping sets `email_verified`.
    """
    picked = {key: raw[key] for key in allowlist if key in raw}
    result = dict(identity_data)
    if picked:
        result["custom_claims"] = {**result.get("custom_claims", {}), **picked}
    changes = {
        target: result[source] if isinstance(source, str) else source
        for target, source in mapping.items()
        if target in claims.KEYS and (not isinstance(source, str) or source in result)
    }
    try:
        changed = claims.from_document({**result, **changes})
    except InvalidProviderResponse:
        return result
    if any(value not in _EMPTY and target not in changed for target, value in changes.items()):
        return result
    if changed.get("email") != identity_data.get("email") and "email_verified" not in changes:
        # The claim belongs to the previous address.
        changed.pop("email_verified", None)
    return changed
