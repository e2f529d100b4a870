"""The console's admin site: access, list of tables, dashboard, sign-in routes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from django.contrib.admin import AdminSite
from django.contrib.admin import utils as admin_utils
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import Resolver404, URLPattern, URLResolver, path, resolve, reverse
from django.views.decorators.http import require_POST

from authsvc import audit
from authsvc.audit import Action
from authsvc.console import dashboard, pages, personal_data, static_files
from authsvc.console.account.routes import account_urls
from authsvc.console.actions import create_context
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.operators import Operator
from authsvc.console.sign_in import forgotten_password, second_factor, views
from authsvc.console.view_policies import View, console_view

_REPLACED = frozenset({"autocomplete", "login", "logout", "password_change", "password_change_done", "view_on_site"})


@require_POST
def show_personal_data(request: HttpRequest) -> HttpResponse:
    """Show the personal data of one page to a viewer, and record it."""
    page = pages.next_url(request)
    context = create_context(request)
    audit.record(
        Action.PERSONAL_DATA_VIEWED,
        actor=context.actor,
        caller=context.caller,
        at=context.at,
        traits={"page": page.partition("?")[0], **_user_traits(page)},
    )
    personal_data.show(request, page=page, at=context.at)
    return HttpResponseRedirect(page)


_LABEL_WORDS = {"id": "ID", "ip": "IP", "uri": "URI", "url": "URL"}


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
            for model in (model_or_iterable,) if isinstance(model_or_iterable, type) else model_or_iterable:
                _label_columns(model)

    def has_permission(self, request: HttpRequest) -> bool:
        return isinstance(request.user, Operator)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        permitted = super().admin_view(view, cacheable)

        @wraps(view)
        def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            # Django would lead to the target of a form, after the sign-in.
            return permitted(request, *args, **kwargs) if self.has_permission(request) else pages.to_sign_in(request)

        return console_view(respond)  # type: ignore[return-value]  # it has the signature of `view`

    def get_urls(self) -> list[URLPattern | URLResolver]:
        standard = [pattern for pattern in super().get_urls() if getattr(pattern, "name", None) not in _REPLACED]
        return [
            path("login/", console_view(views.sign_in), name="login"),
            path("logout/", console_view(views.sign_out), name="logout"),
            path("forgotten-password/", console_view(forgotten_password.request_link), name="forgotten_password"),
            path("reset-password/", console_view(forgotten_password.redeem_link), name="reset_password"),
            path("new-password/", console_view(forgotten_password.set_password), name="new_password"),
            *account_urls(console_view),
            path("second-step/", console_view(second_factor.second_factor), name="second_step"),
            path(
                f"{static_files.URL.removeprefix('/operator/')}<path:name>",
                console_view(static_files.serve, has_cookies=False),
                name="file",
            ),
            path("personal-data/", self.admin_view(show_personal_data), name="show_personal_data"),
            *standard,
        ]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        is_hidden = self.has_permission(request) and personal_data.is_hidden(request)
        return {**super().each_context(request), "hides_personal_data": is_hidden}

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """One group of all lists, instead of one group per app."""
        lists = [
            model
            for app in super().get_app_list(request, app_label)
            for model in app["models"]
            if getattr(self._registry[model["model"]], "has_menu_entry", True)
        ]
        group = {"name": "Lists", "app_label": "lists", "app_url": reverse("admin:index"), "models": lists}
        return [group] if lists else []

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        return super().index(
            request,
            {
                "dashboard": dashboard.read_dashboard(self, is_hidden=personal_data.is_hidden(request)),
                **(extra_context or {}),
            },
        )


def _label_columns(model: type[Model]) -> None:
    """Name the columns of a table as operators do: "last sign-in" for `last_sign_in_at`."""
    for column in model._meta.concrete_fields:
        if getattr(column, "_verbose_name", None) is not None:  # declared
            continue
        words = column.name.removesuffix("_at").replace("sign_in", "sign-in").split("_")
        # Migrations keep the name of the declaration.
        column.verbose_name = " ".join(_LABEL_WORDS.get(word, word) for word in words)


def _user_traits(page: str) -> Mapping[str, str]:
    """The ID of the user whose page it is, or whose rows it lists, as a trait of an audit entry; else empty."""
    path, _, query = page.partition("?")
    try:
        match = resolve(unquote(path))
        if match.url_name in ("accounts_user_change", "accounts_user_timeline"):
            text = admin_utils.unquote(match.kwargs["object_id"])
        else:
            parameters = QueryDict(query)
            text = parameters.get("user") or parameters.get(SEARCH_VAR) or ""
        return {"user_id": str(UUID(text.strip()))}
    except (Resolver404, ValueError):
        return {}
