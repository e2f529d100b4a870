"""Deliveries of webhooks in the console. The payloads of events are not shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from authsvc import conf, events
from authsvc.console import filters, formatting
from authsvc.console.actions import ActionContext, action
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import DashboardStat, OperatorAdmin, bounded_count
from authsvc.console.user_panels import Panel
from authsvc.display_text import EMPTY
from hooks.models import DeliveryStatus, WebhookAttempt, WebhookDelivery, WebhookEndpoint, WebhookEvent
from hooks.webhooks import deliveries
from hooks.webhooks.errors import WebhooksDisabled

_TONES = {
    DeliveryStatus.PENDING: Tone.QUIET,
    DeliveryStatus.SUCCEEDED: Tone.GOOD,
    DeliveryStatus.FAILED: Tone.BAD,
    DeliveryStatus.CANCELLED: Tone.QUIET,
}

_OLD = timedelta(hours=1)


class StatusFilter(filters.ChoiceFilter):
    title = "status"
    parameter_name = "status"
    options = tuple((status.value, status.label.capitalize()) for status in DeliveryStatus)


class EndpointFilter(filters.ChoiceFilter):
    title = "endpoint"
    parameter_name = "endpoint"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        rows = WebhookEndpoint.objects.filter(deleted_at__isnull=True).order_by("created_at", "id")
        return [(str(row.pk), row.description or str(row)) for row in rows]

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        return queryset.filter(endpoint_id=value)


class TypeFilter(filters.ChoiceFilter):
    title = "event"
    parameter_name = "type"
    options = tuple((event_type.value, event_type.value) for event_type in events.EventType)


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(OperatorAdmin):
    """Shows the attempts, but never the payload, which contains personal data."""

    has_menu_entry = False
    list_display = ("type", "target", "progress", "attempts", "last_status", "last_error", "created_at")
    list_filter = (StatusFilter, EndpointFilter, TypeFilter, filters.CreatedSinceFilter)
    list_select_related = ("endpoint",)
    search_fields = ("id",)  # enables the search box
    search_help_text = "ID of a user, an endpoint, an event or a delivery"
    ordering = ("-created_at", "-id")
    fields = (
        "type", "target", "event_name", "user", "progress", "attempts", "attempt_lines", "created_at",
        "last_attempt_at", "next_attempt_at", "succeeded_at",
    )  # fmt: skip
    actions = ("retry",)
    row_actions = actions

    @action(label="Repeat", success_message="Repeating")
    def retry(self, row: WebhookDelivery, context: ActionContext) -> str | None:
        deliveries.retry(str(row.id), actor=context.actor, caller=context.caller, at=context.at)
        return None

    def find_refusal(self, request: HttpRequest, row: WebhookDelivery) -> str:
        return super().find_refusal(request, row) if conf.current().webhooks.enabled else WebhooksDisabled.message

    def hide_personal_data(self, row: Any) -> None:
        # An endpoint may repeat the payload in its response.
        row.hides_responses = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(endpoint__deleted_at__isnull=True)

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        if conf.current().webhooks.enabled:
            pending = self.model.objects.filter(status=DeliveryStatus.PENDING, endpoint__deleted_at__isnull=True)
            yield DashboardStat(
                label="Webhooks pending for over an hour",
                count=bounded_count(pending.filter(created_at__lt=timezone.now() - _OLD)),
                url=self.list_url(status=DeliveryStatus.PENDING.value),
                is_alarming=True,
            )

    def user_panel(self, request: HttpRequest, user_id: UUID) -> Panel | None:
        """A link, without a statement."""
        if not conf.current().webhooks.enabled:
            return None
        return Panel(
            title="Webhooks",
            columns=(),
            rows=(),
            empty_text="Events of this user that other systems receive.",
            page_links=[("Show deliveries", self.list_url(q=user_id))],
            position=60,
        )

    def display_name(self, row: WebhookDelivery) -> str:
        return f"{row.type} to {row.endpoint!s}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        searched_id = filters.parse_id(search_term.removeprefix("evt_"))
        if searched_id is None:
            return queryset.none(), False
        for column in ("id", "event_id"):
            found = queryset.filter(**{column: searched_id})
            if found.exists():
                return found, False
        if WebhookEndpoint.objects.filter(id=searched_id).exists():
            return queryset.filter(endpoint_id=searched_id), False
        # Deliveries have no index of users; their events have.
        of_user = WebhookEvent.objects.filter(user_id=searched_id)
        return queryset.filter(event_id__in=of_user.values("id")), False

    @admin.display(description="endpoint")
    def target(self, row: WebhookDelivery) -> str:
        return str(row.endpoint)

    @admin.display(description="status", ordering="status")
    def progress(self, row: WebhookDelivery) -> SafeString:
        status = DeliveryStatus(row.status)
        return formatting.badge(status.label, _TONES[status])

    @admin.display(description="event")
    def event_name(self, row: WebhookDelivery) -> str:
        return f"evt_{row.event_id}"

    @admin.display(description="user")
    def user(self, row: WebhookDelivery) -> SafeString | str:
        return formatting.user_link(row.user_id)

    @admin.display(description="requests")
    def attempt_lines(self, row: WebhookDelivery) -> SafeString | str:
        attempts = WebhookAttempt.objects.filter(delivery_id=row.id).order_by("-id")[:50]
        hides_responses = getattr(row, "hides_responses", False)
        return (
            format_html_join(
                "",
                "<div>{}: {}, {} ms, {} {}</div>",
                (
                    (
                        attempt.attempt,
                        formatting.datetime_text(attempt.started_at),
                        attempt.duration_ms,
                        attempt.error or attempt.status,
                        formatting.long_text("" if hides_responses else attempt.response_head or ""),
                    )
                    for attempt in attempts
                ),
            )
            or EMPTY
        )
