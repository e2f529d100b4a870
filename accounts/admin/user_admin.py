"""The list of users, and a user's page."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.admin import new_users, panels, search, timeline
from accounts.admin.user_actions import UserActions
from accounts.models import User
from accounts.users import failed_attempts
from authsvc.console import filters, formatting, operators, personal_data, user_panels
from authsvc.console.formatting import Tone
from authsvc.console.timeline import Kind, Position, TimelineEvent
from authsvc.display_text import EMPTY, short_text
from authsvc.operator_access import Access

_PERMANENT_BAN = timedelta(days=10 * 365)


@admin.register(User)
class UserAdmin(UserActions):
    list_display = ("account", "full_name", "state", "role", "created_at", "last_sign_in_at")
    list_filter = (search.StateFilter, filters.CreatedSinceFilter)
    search_fields = ("email",)  # shows the search box; get_search_results searches
    search_help_text = "Words of address, phone or name, or an ID"
    ordering = ("-created_at", "-id")
    indexed_columns = frozenset({"email", "created_at"})
    change_form_template = "operator/user.html"
    export_columns = (
        "id", "email", "phone", "full_name", "state", "role", "created_at", "last_sign_in_at", "email_confirmed_at",
        "phone_confirmed_at", "banned_until",
    )  # fmt: skip
    personal_columns = frozenset(
        {"email", "phone", "email_change", "phone_change", "raw_user_meta_data", "raw_app_meta_data"}
    )

    def get_urls(self) -> list[URLPattern]:
        return [*new_users.urls(self), *timeline.urls(self), *super().get_urls()]

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        return new_users.links() if operators.operator_of(request).access >= Access.SUPPORT else []

    def hide_personal_data(self, row: User) -> None:
        for name in ("email", "phone", "email_change", "phone_change"):
            setattr(row, name, personal_data.mask_address(getattr(row, name)))
        for name in ("raw_user_meta_data", "raw_app_meta_data"):
            if getattr(row, name):
                setattr(row, name, personal_data.HIDDEN)

    def display_name(self, row: Any) -> str:
        if row.deleted_at:
            return f"Deleted user {row.pk}"
        return str(row.email or (f"+{row.phone}" if row.phone else f"Anonymous user {row.pk}"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        has_password = Q(password__isnull=False) & ~Q(password="")
        annotated: QuerySet[Any] = (
            super()
            .get_queryset(request)
            .annotate(has_password=ExpressionWrapper(has_password, output_field=BooleanField()))
        )
        return annotated

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        if personal_data.is_hidden(request):  # a match of a part would reveal the rest
            return queryset.filter(pk__in=search.find_exactly(search_term)), False
        return search.find(queryset, search_term), False

    def search_note(self, request: HttpRequest, search_term: str) -> str:
        return "" if personal_data.is_hidden(request) else search.describe_limits(search_term)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        pending = (("Waiting for confirmation", {"fields": ("email_change", "phone_change")}),)
        return [
            (
                "Account",
                {
                    "fields": (
                        "user_id", "email", "phone", "full_name", "role", "audience", "password_state", "failures",
                    )
                },
            ),
            (
                "Times",
                {
                    "fields": (
                        "created_at", "invited_at", "email_confirmed_at", "phone_confirmed_at", "last_sign_in_at",
                        "confirmation_sent_at", "recovery_sent_at", "updated_at", "banned_until", "deleted_at",
                    )
                },
            ),
            *(pending if obj and (obj.email_change or obj.phone_change) else ()),
            ("Metadata", {"fields": ("user_metadata", "app_metadata"), "classes": ("collapse",)}),
        ]  # fmt: skip

    def row_context(self, request: HttpRequest, row: User) -> dict[str, Any]:
        is_hidden = personal_data.is_hidden(request)
        own_panels = [
            panels.notes(row, is_hidden=is_hidden),
            panels.identities(row, is_hidden=is_hidden),
            panels.factors(row, is_hidden=is_hidden),
            timeline.panel(self, request, row.pk),
        ]
        further_panels = user_panels.collect_panels(request, self.admin_site._registry.values(), row.pk)
        ordered_panels = sorted([*own_panels, *further_panels], key=lambda panel: panel.position)
        return {"state": self.state(row), "panels": ordered_panels}

    def timeline_events(
        self, request: HttpRequest, user_id: UUID, *, kinds: Collection[Kind], before: Position, limit: int
    ) -> Iterable[TimelineEvent]:
        if Kind.NOTE not in kinds:
            return ()
        return timeline.notes(user_id, is_hidden=personal_data.is_hidden(request), before=before, limit=limit)

    @admin.display(description="account", ordering="email")
    def account(self, row: User) -> str:
        return self.display_name(row)

    @admin.display(description="ID")
    def user_id(self, row: User) -> SafeString | str:
        return formatting.code(row.pk)

    @admin.display(description="name")
    def full_name(self, row: User) -> str:
        metadata = row.raw_user_meta_data if isinstance(row.raw_user_meta_data, dict) else {}
        return short_text(metadata.get("full_name") or metadata.get("name"))

    @admin.display(description="audience")
    def audience(self, row: User) -> str:
        return row.aud or EMPTY

    @admin.display(description="password")
    def password_state(self, row: Any) -> str:
        return "Set" if row.has_password else "None"

    @admin.display(description="failed attempts")
    def failures(self, row: User) -> str:
        count = failed_attempts.read_count(row.pk)
        return f"{count} (only known addresses may sign in)" if failed_attempts.is_limited(count) else str(count)

    @admin.display(description="user metadata")
    def user_metadata(self, row: User) -> SafeString | str:
        return formatting.json_block(row.raw_user_meta_data)

    @admin.display(description="app metadata")
    def app_metadata(self, row: User) -> SafeString | str:
        return formatting.json_block(row.raw_app_meta_data)

    @admin.display(description="state")
    def state(self, row: User) -> SafeString:
        at = timezone.now()
        if row.deleted_at:
            return formatting.badge("deleted", Tone.QUIET)
        if row.banned_until and row.banned_until > at:
            is_long = row.banned_until - at > _PERMANENT_BAN
            return formatting.badge(
                "banned" if is_long else f"banned until {formatting.datetime_text(row.banned_until)}", Tone.BAD
            )
        if row.is_anonymous:
            return formatting.badge("anonymous", Tone.QUIET)
        if row.confirmed_at is None:
            return formatting.badge("not confirmed", Tone.WAITING)
        return formatting.badge("confirmed", Tone.GOOD)
