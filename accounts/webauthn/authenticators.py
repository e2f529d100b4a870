"""Names of authenticator models, from the community list of AAGUIDs.

The list is `combined_aaguid.json` of github.com/passkeydeveloper/passkey-authenticator-aaguids. Update it with each
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
    """The name of a model; `Passkey` for an unknown or undisclosed one."""
    return names().get(str(aaguid), UNKNOWN)


@cache
def names() -> Mapping[str, str]:
    """AAGUID → name."""
    models: dict[str, str] = orjson.loads(_LIST.read_bytes())
    return models
