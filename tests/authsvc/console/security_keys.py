"""Security keys of operators, and the options of their ceremonies in pages."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from tests.authsvc.console.conftest import Console
from tests.fakes.authenticator import Authenticator

ORIGIN = "https://auth.example.com"


def copy_of(console: Console) -> Console:
    """Another browser with the same cookies."""
    other = Console()
    other.client.cookies.load({name: cookie.value for name, cookie in console.client.cookies.items()})
    return other


def new_device() -> Authenticator:
    return Authenticator(rp_id="example.com", origin=ORIGIN)


def options_in(page: Any) -> Any:
    options = re.search(r'data-options="([^"]+)"', page.content.decode())
    assert options, page.content
    return json.loads(html.unescape(options[1]))
