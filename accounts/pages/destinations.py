"""The URLs to which the pages send a browser: own ones below the path of this service, and targets of `redirect_to`.

A proxy may serve this service below a path (AUTH_API_EXTERNAL_URL). Django's script prefix is that path while a page
runs, so `reverse` and `{% url %}` include it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest
from django.urls import get_script_prefix, reverse, set_script_prefix
from django.utils.encoding import escape_uri_path

from authsvc.caller import caller_of
from authsvc.security import redirects

_OWN_PATHS = ("account", "oauth")
"""First segments of paths to which `next` may lead: pages, and authorization requests that wait for a sign-in."""


@contextmanager
def below_external_path(request: HttpRequest) -> Iterator[None]:
    """In the block, own URLs begin with the path below which the client reaches this service."""
    previous = get_script_prefix()
    set_script_prefix(urlsplit(caller_of(request).link_base).path.rstrip("/") + "/")
    try:
        yield
    finally:
        set_script_prefix(previous)


def own_path(request: HttpRequest) -> str:
    """The path and query of the request, as the browser sees them."""
    query = request.META.get("QUERY_STRING", "")
    path = get_script_prefix() + escape_uri_path(request.path_info.removeprefix("/"))
    return f"{path}?{query}" if query else path


def next_path(request: HttpRequest) -> str:
    """The parameter `next` of the form or the URL if it is a path of the pages; else empty."""
    return _permitted_path(request.POST.get("next") or request.GET.get("next") or "")


def own_page(request: HttpRequest) -> str:
    """The parameter `page` of the form if it is a path of the pages; else empty."""
    return _permitted_path(request.POST.get("page", ""))


def redirect_target(request: HttpRequest) -> str:
    """The parameter `redirect_to` of the form or the URL if the rule of the API permits it; else empty."""
    requested = request.POST.get("redirect_to") or request.GET.get("redirect_to") or ""
    if not requested or not redirects.is_permitted(requested):
        return ""
    return redirects.resolve(header=requested, query=None, referer=None)


def with_next(url: str, path: str) -> str:
    """The URL of a page that continues at `path`."""
    return f"{url}?{urlencode({'next': path})}" if path else url


def after_sign_in(request: HttpRequest) -> str:
    """The page that `next` names, else the account."""
    return next_path(request) or reverse("pages:account")


def absolute(path: str, *, request: HttpRequest) -> str:
    """The URL of an own path for emails and providers. Its host is not that of the request, which a client chooses."""
    parts = urlsplit(caller_of(request).link_base)
    return f"{parts.scheme}://{parts.netloc}{path}"


def _permitted_path(text: str) -> str:
    """The path and query as a browser resolves them, or empty."""
    path, prefix = redirects.own_path(text), get_script_prefix()
    first = path.partition("?")[0].removeprefix(prefix).partition("/")[0]
    return path if path.startswith(prefix) and first in _OWN_PATHS else ""
