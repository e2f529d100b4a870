"""Attack: a redirect target that makes the allow list backtrack, on any request through the access log."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import pytest

from authsvc.conf import AuthConfig
from tests.conftest import Api

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

ALLOW_LIST = ("https://*.*.*.*.*.*.app.example.com/*/*/*/*/*/*/end", "https://**a**a**a**a**a**/end")
# A regular expression needs minutes for each of them.
HOSTILE = (
    "https://" + "a." * 900 + "example.com/x",
    "https://a.example.com/" + "a/" * 1_000,
    "https://" + "a" * 1_990,
    "https://x.example.com/" + "a" * 30_000,
)


@pytest.mark.parametrize("target", HOSTILE)
@pytest.mark.parametrize("path", ["/settings", "/verify?type=signup&token=x", "/authorize?provider=github"])
def test_hostile_target_costs_no_cpu(api: Api, auth_config: ChangeConfig, path: str, target: str) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": ALLOW_LIST})
    separator = "&" if "?" in path else "?"
    before = time.thread_time()
    api.get(f"{path}{separator}redirect_to={quote(target)}", headers={"Referer": target, "redirect_to": target})
    assert time.thread_time() - before < 2  # far above a linear match (2 ms), far below the seconds of the attack


@pytest.mark.parametrize(
    "target",
    [
        "https://a.b.c.d.e.f.app.example.com/1/2/3/4/5/6/end",
        "https://xaxaxaxaxax/end",
        "https://example.com/" + "a" * 2_000,
    ],
)
def test_permitted_target_is_followed(api: Api, auth_config: ChangeConfig, target: str) -> None:
    auth_config(site={"url": "https://example.com", "allow_list": ALLOW_LIST})
    response = api.get(f"/verify?type=signup&token=x&redirect_to={quote(target)}")
    assert response.headers["Location"].startswith(f"{target}?" if "?" in target else target)
