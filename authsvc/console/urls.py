"""Routes of the console."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from authsvc.console.access import console_view

urlpatterns: list[URLPattern | URLResolver] = [
    path("operator", console_view(RedirectView.as_view(url="/operator/"))),
    path("operator/", admin.site.urls),
]
