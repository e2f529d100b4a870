"""Attack: a link whose target is another origin on the site's host, or a program on the victim's own machine."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from authsvc.conf import AuthConfig
from tests.conftest import Api

pytestmark = pytest.mark.django_db

ChangeConfig = Callable[..., AuthConfig]

SITE = "https://app.example.com"


def redirect_of(api: Api, target: str) -> str:
    """The address to which a link with this target redirects, without the result."""
    response = api.get(f"/verify?type=signup&token=x&redirect_to={quote(target)}")
    return response.headers["Location"].partition("#")[0].partition("?")[0]


@pytest.mark.parametrize(
    "target",
    [
        "http://app.example.com/steal",
        "https://app.example.com:8443/steal",
        "HTTP://APP.example.com/steal",
        "https://app.example.com:80/steal",
        "http://127.0.0.1:9999/steal",
        "http://[::1]:9999/steal",
        "http://2130706433:9999/steal",
        "http://[::ffff:7f00:1]/steal",
        "http://localhost:9999/steal",
        "https://evil.example/.preview.example.com/cb",
    ],
)
def test_foreign_origin_is_not_a_target(api: Api, auth_config: ChangeConfig, target: str) -> None:
    auth_config(site={"url": SITE, "allow_list": ("https://**.preview.example.com/**",)})
    assert redirect_of(api, target) == SITE


@pytest.mark.parametrize(
    ("site", "allow_list", "target"),
    [
        (SITE, (), f"{SITE}/welcome"),
        (SITE, (), f"{SITE}:443/welcome"),
        (SITE, ("http://app.example.com:8080/*",), "http://app.example.com:8080/welcome.html"),
        (SITE, ("http://127.0.0.1:*/cb",), "http://127.0.0.1:4711/cb"),
        (SITE, ("https://**.preview.example.com/**",), "https://a.b.preview.example.com/x/y.html"),
        ("http://localhost:3000", (), "http://127.0.0.1:4711/cb"),
        ("http://127.0.0.1:3000", (), "http://localhost:4711/cb"),
    ],
)
def test_own_origin_and_listed_targets_are_followed(
    api: Api, auth_config: ChangeConfig, site: str, allow_list: tuple[str, ...], target: str
) -> None:
    auth_config(site={"url": site, "allow_list": allow_list})
    assert redirect_of(api, target) == target.replace(":443", "")
