"""Routes of the console, included under `operator/`."""

from __future__ import annotations

from django.contrib import admin

urlpatterns, app_name, _ = admin.site.urls
