"""Origins of the pages that may show authorization requests and send decisions."""

from __future__ import annotations

import pytest

from oauthserver.authorization import authorization_requests
from tests.conftest import ChangeConfig


@pytest.mark.parametrize(
    ("origin", "permitted"),
    [
        ("", True),
        ("http://localhost:3000", True),
        ("http://127.0.0.1:3000", True),
        ("https://app.example.com", True),
        ("https://app.example.com:8080", False),
        ("https://APP.EXAMPLE.COM", False),
        ("https://evil.example", False),
        ("null", False),
        ("http://localhost:3000, https://evil.example", False),
        ("https://app.example.com.evil.example", False),
        ("https://partner.example.net", True),
    ],
)
def test_origin_of_the_page(origin: str, permitted: bool, auth_config: ChangeConfig) -> None:
    if origin != "http://localhost:3000":
        auth_config(site={"url": "https://app.example.com", "allow_list": ("https://partner.example.net/**",)})
    assert authorization_requests.is_permitted_origin(origin) is permitted
