"""The credential of a WebAuthn ceremony in a submitted form."""

from __future__ import annotations

from typing import Any

import orjson
from django.http import HttpRequest


def read_credential(request: HttpRequest) -> Any:
    """The credential as the browser has serialised it (WebAuthn Level 3 §5.1), unchecked; None if it is not JSON."""
    try:
        return orjson.loads(request.POST.get("credential", ""))
    except orjson.JSONDecodeError:
        return None
