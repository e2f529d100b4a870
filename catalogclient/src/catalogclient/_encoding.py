"""Encodes request bodies."""

from __future__ import annotations

import json
from typing import Any

from catalogclient.errors import InvalidArgumentError


def body(document: Any) -> bytes:
    """Encodes `document` as compact JSON in UTF-8. Raises InvalidArgumentError if JSON cannot express it (NaN)."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the request cannot be encoded as JSON: {type(error).__name__}") from error
