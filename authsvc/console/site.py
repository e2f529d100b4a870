"""Django's admin site as operators see it: who may enter, what is listed where, the start page."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse

from authsvc.console import dashboard, second_factor, sign_in, static
from authsvc.console.model_admin import Operator, OperatorAdmin

_ABSENT = frozenset({"login", "logout", "password_change", "password_change_done", "view_on_site"})


class OperatorSite(AdminSite):
    site_title = "authsvc console"
    site_header = "authsvc console"
    index_title = "What needs attention"
    site_url = None
    enable_nav_sidebar = False  # the few lists there are stand in the page's head
    index_template = "operator/start.html"
    empty_value_display = "–"

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        # Libraries offer pages for their own tables, which would let operators edit rows past every service.
        if admin_class is not None and issubclass(admin_class, OperatorAdmin):
            super().register(model_or_iterable, admin_class, **options)

    def has_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, Operator)

    def get_urls(self) -> list[URLPattern | URLResolver]:
        standard = [each for each in super().get_urls() if getattr(each, "name", None) not in _ABSENT]
        return [
            path("login/", sign_in.enter, name="login"),
            path("logout/", sign_in.leave, name="logout"),
            path("second-step/", second_factor.take, name="second_step"),
            path(f"{static.URL.removeprefix('/operator/')}<path:name>", static.serve, name="file"),
            *standard,
        ]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """One group of lists: operators look for users and messages, not for apps."""
        lists = [model for app in super().get_app_list(request, app_label) for model in app["models"]]
        group = {"name": "Lists", "app_label": "lists", "app_url": reverse("admin:index"), "models": lists}
        return [group] if lists else []

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return super().index(request, {"overview": dashboard.look(self), **(extra_context or {})})
