"""Routes with and without a trailing slash, as one entry of a URL list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import URLPattern, path


def slash_optional(route: str, view: Callable[..., HttpResponseBase], **kwargs: Any) -> list[URLPattern]:
    """The route and the same route with a trailing slash; neither redirects to the other."""
    return [path(route, view, **kwargs), path(f"{route}/", view, **kwargs)]
