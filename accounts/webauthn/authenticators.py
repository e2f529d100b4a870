"""What makes of authenticators are called, from the list that providers of passkeys keep together.

The list: `combined_aaguid.json` of github.com/passkeydeveloper/passkey-authenticator-aaguids, to be renewed with each
release by `jq --sort-keys 'map_values(.name)'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from uuid import UUID

import orjson

_LIST = Path(__file__).with_suffix(".json")
UNKNOWN = "Passkey"


def name(aaguid: UUID) -> str:
    """What people know a make by; `Passkey` for one that does not say what it is or is not in the list."""
    return _names().get(str(aaguid), UNKNOWN)


@cache
def _names() -> Mapping[str, str]:
    names: dict[str, str] = orjson.loads(_LIST.read_bytes())
    return names
