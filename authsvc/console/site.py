"""The console's admin site: access, list of tables, dashboard, sign-in routes."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse

from authsvc.console import dashboard, static_files
from authsvc.console.access import View, console_view
from authsvc.console.model_admin import Operator, OperatorAdmin
from authsvc.console.sign_in import second_factor, views

_REPLACED = frozenset({"login", "logout", "password_change", "password_change_done", "view_on_site"})


class OperatorSite(AdminSite):
    site_title = "authsvc console"
    site_header = "authsvc console"
    index_title = "Dashboard"
    site_url = None
    enable_nav_sidebar = False  # the page header lists the tables
    index_template = "operator/dashboard.html"
    empty_value_display = "–"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        # Admin pages of libraries would let operators edit rows without the services.
        if admin_class is not None and issubclass(admin_class, OperatorAdmin):
            super().register(model_or_iterable, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, Operator)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        return console_view(super().admin_view(view, cacheable))

    def get_urls(self) -> list[URLPattern | URLResolver]:
        standard = [pattern for pattern in super().get_urls() if getattr(pattern, "name", None) not in _REPLACED]
        return [
            path("login/", console_view(views.sign_in), name="login"),
            path("logout/", console_view(views.sign_out), name="logout"),
            path("second-step/", console_view(second_factor.second_factor), name="second_step"),
            path(
                f"{static_files.URL.removeprefix('/operator/')}<path:name>",
                console_view(static_files.serve, has_cookies=False),
                name="file",
            ),
            *standard,
        ]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """One group of all lists, instead of one group per app."""
        lists = [model for app in super().get_app_list(request, app_label) for model in app["models"]]
        group = {"name": "Lists", "app_label": "lists", "app_url": reverse("admin:index"), "models": lists}
        return [group] if lists else []

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return super().index(request, {"dashboard": dashboard.read_dashboard(self), **(extra_context or {})})
