"""Routes of the console."""

from __future__ import annotations

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, path, re_path
from django.views.generic import RedirectView

from authsvc.console.view_policies import console_view


def not_found(request: HttpRequest, url: str) -> HttpResponse:
    raise Http404


urlpatterns: list[URLPattern | URLResolver] = [
    path("operator", console_view(RedirectView.as_view(url="/operator/"))),
    path("operator/", admin.site.urls),
    # The admin's last route, `.*`, does not match line breaks.
    re_path(r"operator/(?P<url>[\s\S]*)$", console_view(not_found)),
]
