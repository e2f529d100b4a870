"""What an administrator wants to know of people beyond the usual claims, and by which names; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from oauthproviders.base import claims
from oauthproviders.errors import Unusable

_EMPTY = (None, "")


def apply(
    said: Mapping[str, Any], raw: Mapping[str, Any], *, allowlist: Collection[str], mapping: Mapping[str, Any]
) -> dict[str, Any]:
    """The claims, with what the allowlist picks out of the `raw` document and with those of the mapping replaced.

    The mapping is target → source: a text names another claim, anything else is the value itself. When it brings
    about what is no set of claims, they are left as they are. An address that takes the place of another one is
    verified only if the mapping says so.
    """
    picked = {key: raw[key] for key in allowlist if key in raw}
    kept = dict(said)
    if picked:
        kept["custom_claims"] = {**kept.get("custom_claims", {}), **picked}
    changes = {
        target: kept[source] if isinstance(source, str) else source
        for target, source in mapping.items()
        if target in claims.KEYS and (not isinstance(source, str) or source in kept)
    }
    try:
        changed = claims.from_document({**kept, **changes})
    except Unusable:
        return kept
    if any(value not in _EMPTY and target not in changed for target, value in changes.items()):
        return kept
    if changed.get("email") != said.get("email") and "email_verified" not in changes:
        # It was said of the address that stood there before.
        changed.pop("email_verified", None)
    return changed
