"""Bodies of requests: documents in the one form in which they are sent."""

from __future__ import annotations

import json
from typing import Any

from catalogclient.errors import InvalidArgumentError


def body(document: Any) -> bytes:
    """`document` as JSON in UTF-8 without blanks. Raises InvalidArgumentError for what JSON cannot say (NaN)."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the request is no JSON document: {type(error).__name__}") from error
