"""Every route of the API answers with and without a slash at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, resolve

SAMPLES = {"uuid": "11111111-2222-4333-8444-555555555555", "int": "1", "str": "x", "slug": "x", "path": "x"}
PAGES = ("inbox", "operator", "docs/<")
"""Path prefixes of HTML pages, which clients never build URLs for."""


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif not route.startswith(PAGES):
            yield route


def sample(route: str) -> str:
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda match: SAMPLES[match[1] or "str"], route)


ROUTES = sorted(set(routes(get_resolver().url_patterns)))


def test_routes_are_found() -> None:
    assert "health" in ROUTES


@pytest.mark.parametrize("route", ROUTES)
def test_route_exists_with_and_without_slash(route: str) -> None:
    path = sample(route).rstrip("/")
    if path:
        assert resolve(path).func == resolve(path + "/").func
