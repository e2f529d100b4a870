"""Sessions in the operator console: a panel on the user's page, a page per session, and revocation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import helpers
from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from authsvc import user_agents
from authsvc.console import filters, formatting, personal_data
from authsvc.console.actions import MAX_ACTION_ROWS, ActionContext, action, is_whole_list
from authsvc.console.formatting import Tone
from authsvc.console.lists import FilteredList
from authsvc.console.model_admin import DashboardStat, OperatorAdmin, bounded_count
from authsvc.console.user_panels import MAX_PANEL_ROWS, Button, Panel, PanelRow
from authsvc.display_text import EMPTY
from authsvc.operator_access import Access
from tokens.models import Session
from tokens.sessions import impersonation, revocation, users

_OWNER = "user"


def _impersonator_name(row: Any) -> str:
    """The address of the operator who impersonates the user in a session; empty for the user's own sessions."""
    if row.impersonator_id is None:
        return ""
    if not hasattr(row, "impersonator_name"):
        operator = users.user_source.find_user(row.impersonator_id)
        name = (operator.email or f"+{operator.phone}") if operator else str(row.impersonator_id)
        row.impersonator_name = name
    return str(row.impersonator_name)


def _is_of_all_users(request: HttpRequest) -> bool:
    """True for the list of all sessions, which no index has by age."""
    return not {_OWNER, ImpersonatedFilter.parameter_name, "e"} & request.GET.keys()


class ImpersonatedFilter(filters.ChoiceFilter):
    title = "impersonation"
    parameter_name = "impersonated"
    options = (("yes", "Impersonated by an operator"),)

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(impersonator_id__isnull=False)


@admin.register(Session)
class SessionAdmin(OperatorAdmin):
    list_display = ("device", "ip", "created_at", "last_used", "methods", "level", "impersonator")
    list_display_links = ("device",)
    list_filter = (ImpersonatedFilter,)
    ordering = ("-created_at", "-id")
    fields = (
        "owner", "impersonator", "device", "user_agent", "ip", "created_at", "age", "last_used", "ends", "methods",
        "level", "tag", "scopes", "session_id",
    )  # fmt: skip
    actions = ("end",)
    row_actions = ("end",)
    personal_columns = frozenset({"ip", "user_agent"})

    @action(
        label="End session",
        success_message="Ended",
        confirmation="The user of this session must sign in again. Other services accept its access token until"
        " it expires.",
        access=Access.SUPPORT,
    )
    def end(self, row: Session, context: ActionContext) -> str | None:
        revocation.revoke_session_as_operator(row.pk, actor=context.actor, caller=context.caller, at=context.at)
        return f"Session ended: {self.device(row)}"

    def display_name(self, row: Session) -> str:
        return f"{self.device(row)}, {row.ip or 'unknown address'}, since {formatting.datetime_text(row.created_at)}"

    def account_role(self, row: Session) -> str | None:
        return row.user.role

    def hide_personal_data(self, row: Any) -> None:
        row.ip = personal_data.HIDDEN if row.ip else None
        row.user_agent = personal_data.HIDDEN if row.user_agent else None
        row.impersonator_name = personal_data.mask_address(_impersonator_name(row))

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        active = Session.objects.filter(impersonator_id__isnull=False, not_after__gt=timezone.now())
        count = bounded_count(active)
        if count or impersonation.is_enabled():
            url = self.list_url(**{ImpersonatedFilter.parameter_name: "yes"})
            yield DashboardStat(label="Active views as user", count=count, url=url)

    def user_panel(self, request: HttpRequest, user_id: UUID) -> Panel:
        sessions = list(self._readable().filter(user_id=user_id).order_by(*self.ordering)[: MAX_PANEL_ROWS + 1])
        if personal_data.is_hidden(request):
            for session in sessions:
                self.hide_personal_data(session)
        can_end = "end" in self.get_actions(request)
        return Panel(
            title="Sessions",
            columns=("Device", "Address", "Since", "Age", "Last used", "Signed in by", "Level"),
            rows=[
                PanelRow(
                    cells=(
                        self.device(row),
                        row.ip or EMPTY,
                        row.created_at,
                        self.age(row),
                        self.last_used(row),
                        self._sign_in(row),
                        self.level(row),
                    ),
                    url=self.row_url(row),
                    button=Button(label="End", url=self.list_url(), action="end", row=row.pk) if can_end else None,
                )
                for row in sessions[:MAX_PANEL_ROWS]
            ],
            empty_text="Not signed in anywhere.",
            more_url=self.list_url(**{_OWNER: user_id}) if len(sessions) > MAX_PANEL_ROWS else "",
            position=30,
        )

    @admin.display(description="device")
    def device(self, row: Session) -> str:
        return user_agents.describe(row.user_agent) or "Unknown device"

    @admin.display(description="user")
    def owner(self, row: Session) -> SafeString | str:
        return formatting.user_link(row.user_id)

    @admin.display(description="session ID")
    def session_id(self, row: Session) -> SafeString | str:
        return formatting.code(row.pk)

    @admin.display(description="age", ordering="-created_at")
    def age(self, row: Session) -> str:
        return timesince(row.created_at, timezone.now(), depth=1) if row.created_at else EMPTY

    @admin.display(description="last used", ordering="refreshed_at")
    def last_used(self, row: Session) -> str:
        return formatting.datetime_text(row.refreshed_at or row.created_at)

    @admin.display(description="ends")
    def ends(self, row: Session) -> str:
        return formatting.datetime_text(row.not_after)

    @admin.display(description="signed in by")
    def methods(self, row: Session) -> str:
        return ", ".join(claim.authentication_method for claim in row.amr_claims.all()) or EMPTY

    @admin.display(description="impersonated by")
    def impersonator(self, row: Any) -> SafeString | str:
        return formatting.user_link(row.impersonator_id, _impersonator_name(row))

    @admin.display(description="level", ordering="aal")
    def level(self, row: Session) -> SafeString:
        return formatting.badge((row.aal or "aal1").upper(), Tone.GOOD if (row.aal or "") > "aal1" else Tone.QUIET)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("amr_claims")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False  # not in the menu: sessions are reached through their user

    def has_view_permission(self, request: HttpRequest, _row: Any = None) -> bool:
        return super().has_module_permission(request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if _is_of_all_users(request) and (request.method != "POST" or is_whole_list(request)):
            return HttpResponseRedirect(reverse("admin:index"))
        return super().changelist_view(request, extra_context)

    def filtered_list(self, request: HttpRequest) -> FilteredList:
        if _is_of_all_users(request):
            raise BadRequest("Sessions are listed by user only.")
        return super().filtered_list(request)

    def response_action(  # type: ignore[override]  # the stubs have a parameter of later versions
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        selected = queryset.filter(pk__in=request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        owners = set(selected.values_list("user_id", flat=True)[:MAX_ACTION_ROWS])
        response = super().response_action(request, queryset)
        if isinstance(response, HttpResponseRedirect) and len(owners) == 1:
            return HttpResponseRedirect(formatting.user_url(owners.pop()) or response.url)
        return response

    def _sign_in(self, row: Session) -> SafeString | str:
        """The methods of a session, or the operator who impersonates the user in it."""
        if row.impersonator_id is None:
            return self.methods(row)
        return formatting.badge(f"impersonated by {_impersonator_name(row)}", Tone.WAITING)

    def _readable(self) -> QuerySet[Session]:
        return Session.objects.defer("refresh_token_hmac_key").prefetch_related("amr_claims")
