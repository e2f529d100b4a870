"""Endpoints of webhooks in the console. Their secrets are shown once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.messages import constants as levels
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from authsvc import conf, events
from authsvc.console import actions, formatting, operators
from authsvc.console.actions import ActionContext, ShownOnce, action
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import DashboardStat, OperatorAdmin, bounded_count
from authsvc.console.read_only_admin import MAX_COUNTED
from authsvc.operator_access import Access
from hooks.admin import hook_pages
from hooks.models import DeliveryStatus, DisabledReason, WebhookDelivery, WebhookEndpoint
from hooks.webhooks import deliveries, endpoints
from hooks.webhooks.endpoints import EndpointWithSecret
from hooks.webhooks.errors import WebhooksDisabled


class EndpointForm(forms.Form):
    url = forms.CharField(label="URL", max_length=2048, help_text="https, on a public host.")
    event_types = forms.CharField(
        label="Events",
        initial=endpoints.ALL_TYPES,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocapitalize": "none"}),
        help_text="One in each line: a type such as user.created, a group such as user.*, or * for all.",
    )
    description = forms.CharField(label="Description", required=False, max_length=endpoints.MAX_DESCRIPTION_LENGTH)

    def values(self) -> dict[str, Any]:
        data = self.cleaned_data
        types = [line.strip() for line in data["event_types"].splitlines() if line.strip()]
        return {"url": data["url"], "event_types": types, "description": data["description"]}


class ReplayForm(forms.Form):
    hours = forms.IntegerField(
        label="Hours",
        initial=24,
        min_value=1,
        max_value=24 * 365,
        help_text="Failed and cancelled deliveries of the events of so many hours are attempted again.",
    )


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(OperatorAdmin):
    list_display = ("__str__", "state", "types", "description", "failing_since", "pending", "created_at")
    ordering = ("-created_at", "-id")
    fieldsets = (
        ("Endpoint", {"fields": ("name", "id", "state", "types", "description", "pending", "deliveries")}),
        ("Times", {"fields": ("created_at", "updated_at", "disabled_at", "failing_since", "previous_secret_until")}),
    )
    actions = ("ping", "replay", "rotate_secret", "enable", "disable", "delete")
    row_actions = actions

    @action(label="Send a test event", success_message="Sent a test event to", accepts_lists=False)
    def ping(self, row: WebhookEndpoint, context: ActionContext) -> str | None:
        actor = events.EventActor(type=events.ActorType.OPERATOR, id=context.actor.user_id, role=context.actor.role)
        deliveries.ping(str(row.id), actor=actor, request=events.current_request(), at=context.at)
        return None

    @action(
        label="Repeat deliveries", success_message="Repeated", form=ReplayForm, for_one_row=True, accepts_lists=False
    )
    def replay(self, row: WebhookEndpoint, context: ActionContext) -> str | None:
        count = deliveries.replay(
            str(row.id),
            since=context.at - timedelta(hours=context.values["hours"]),
            actor=context.actor,
            caller=context.caller,
            at=context.at,
        )
        return f"Repeated: {count:,} {'delivery' if count == 1 else 'deliveries'}"

    @action(
        label="Replace secret",
        success_message="Replaced the secret of",
        confirmation="Both secrets sign for 24 hours, in which the receiver has to be given the new one. A secret that"
        " was replaced before ends at once.",
        for_one_row=True,
        accepts_lists=False,
    )
    def rotate_secret(self, row: WebhookEndpoint, context: ActionContext) -> ShownOnce:
        rotated = endpoints.rotate_secret(str(row.id), actor=context.actor, caller=context.caller, at=context.at)
        return _secret(rotated.secret)

    @action(label="Enable", success_message="Enabled", accepts_lists=False)
    def enable(self, row: WebhookEndpoint, context: ActionContext) -> str | None:
        self._set_disabled(row, context, disabled=False)
        return None

    @action(
        label="Disable",
        success_message="Disabled",
        confirmation="The endpoint receives no events until it is enabled. Pending deliveries are cancelled, and can"
        " be repeated later.",
        accepts_lists=False,
    )
    def disable(self, row: WebhookEndpoint, context: ActionContext) -> str | None:
        self._set_disabled(row, context, disabled=True)
        return None

    @action(
        label="Delete",
        success_message="Deleted",
        confirmation="The endpoint and its deliveries are deleted. This cannot be undone.",
        is_dangerous=True,
        for_one_row=True,
        accepts_lists=False,
    )
    def delete(self, row: WebhookEndpoint, context: ActionContext) -> str | None:
        endpoints.delete(str(row.id), actor=context.actor, caller=context.caller, at=context.at)
        return None

    def available_actions(self, row: WebhookEndpoint) -> list[str]:
        hidden = {"disable", "ping", "replay"} if row.disabled_at else {"enable"}
        return [name for name in self.row_actions if name not in hidden]

    def find_refusal(self, request: HttpRequest, row: WebhookEndpoint) -> str:
        return super().find_refusal(request, row) if conf.current().webhooks.enabled else WebhooksDisabled.message

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        # A matching filter would reveal the credentials that paths of URLs often contain.
        return "url" not in lookup.split("__") and super().lookup_allowed(lookup, value, request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(deleted_at__isnull=True)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("create/", view(partial(create_endpoint, self)), name="hooks_webhookendpoint_create"),
            *hook_pages.urls(self),
            path("<uuid:endpoint_id>/edit/", view(partial(edit_endpoint, self)), name="hooks_webhookendpoint_edit"),
            *super().get_urls(),
        ]

    def page_links(self, request: HttpRequest) -> list[tuple[str, str]]:
        links = [("Deliveries", reverse("admin:hooks_webhookdelivery_changelist")), hook_pages.link()]
        if _can_edit(request):
            links.insert(0, ("Create endpoint", reverse("admin:hooks_webhookendpoint_create")))
        return links

    def row_links(self, request: HttpRequest, row: Any) -> list[tuple[str, str]]:
        return [("Edit", reverse("admin:hooks_webhookendpoint_edit", args=[row.id]))] if _can_edit(request) else []

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        if conf.current().webhooks.enabled:
            lost = (DisabledReason.FAILING, DisabledReason.GONE)
            rows = WebhookEndpoint.objects.filter(deleted_at__isnull=True, disabled_reason__in=lost)
            yield DashboardStat(
                label="Failing webhook endpoints",
                count=bounded_count(rows),
                url=self.list_url(),
                is_alarming=True,
            )

    @admin.display(description="endpoint")
    def name(self, row: WebhookEndpoint) -> str:
        return str(row)

    @admin.display(description="state", ordering="disabled_at")
    def state(self, row: WebhookEndpoint) -> SafeString:
        if not conf.current().webhooks.enabled:
            return formatting.badge("webhooks are disabled", Tone.QUIET)
        if row.disabled_at is not None:
            reason = DisabledReason(row.disabled_reason).label if row.disabled_reason else "disabled"
            return formatting.badge(reason, Tone.BAD if row.disabled_reason != DisabledReason.MANUAL else Tone.QUIET)
        return formatting.badge("failing", Tone.BAD) if row.failing_since else formatting.badge("active", Tone.GOOD)

    @admin.display(description="events")
    def types(self, row: WebhookEndpoint) -> str:
        return ", ".join(row.event_types)

    @admin.display(description="pending deliveries")
    def pending(self, row: WebhookEndpoint) -> str:
        rows = WebhookDelivery.objects.filter(endpoint_id=row.pk, status=DeliveryStatus.PENDING)
        count = bounded_count(rows)
        return f"{count:,}+" if count == MAX_COUNTED else f"{count:,}"

    @admin.display(description="deliveries")
    def deliveries(self, row: WebhookEndpoint) -> SafeString:
        url = reverse("admin:hooks_webhookdelivery_changelist", query={"q": str(row.id)})
        return formatting.link(url, "Deliveries of this endpoint")

    def _set_disabled(self, row: WebhookEndpoint, context: ActionContext, *, disabled: bool) -> None:
        endpoints.update(str(row.id), disabled=disabled, actor=context.actor, caller=context.caller, at=context.at)


def create_endpoint(model_admin: OperatorAdmin, request: HttpRequest) -> HttpResponse:
    """Create an endpoint, and show its secret once."""
    _require_editing(request)
    form = EndpointForm(request.POST if request.method == "POST" else None)

    def create(context: ActionContext) -> EndpointWithSecret:
        return endpoints.create(**form.values(), actor=context.actor, caller=context.caller, at=context.at)

    if created := actions.submit(request, form, create):
        return actions.form_page(
            model_admin,
            request,
            "operator/shown_once.html",
            title="Created",
            secrets=[(str(created.endpoint), _secret(created.secret))],
            back_url=model_admin.row_url(created.endpoint),
        )
    status = 400 if form.errors else 200
    return actions.form_page(
        model_admin, request, "operator/form.html", title="Create endpoint", form=form, status=status
    )


def edit_endpoint(model_admin: OperatorAdmin, request: HttpRequest, endpoint_id: Any) -> HttpResponse:
    """Change URL, events and description of an endpoint."""
    _require_editing(request)
    endpoint = endpoints.find(str(endpoint_id))
    present = {
        "url": endpoint.url,
        "event_types": "\n".join(endpoint.event_types),
        "description": endpoint.description,
    }
    form = EndpointForm(request.POST if request.method == "POST" else None, initial=present)

    def update(context: ActionContext) -> WebhookEndpoint:
        return endpoints.update(
            str(endpoint_id), **form.values(), actor=context.actor, caller=context.caller, at=context.at
        )

    if changed := actions.submit(request, form, update):
        model_admin.message_user(request, f"Changed: {changed}", levels.SUCCESS)
        return HttpResponseRedirect(model_admin.row_url(endpoint))
    return actions.form_page(
        model_admin,
        request,
        "operator/form.html",
        title="Edit endpoint",
        form=form,
        status=400 if form.errors else 200,
        back_url=model_admin.row_url(endpoint),
    )


def _can_edit(request: HttpRequest) -> bool:
    return operators.operator_of(request).access >= Access.ADMIN and conf.current().webhooks.enabled


def _require_editing(request: HttpRequest) -> None:
    """Raise the refusal of an operator for whom `_can_edit` is false."""
    operators.require(request, Access.ADMIN)
    if not conf.current().webhooks.enabled:
        raise WebhooksDisabled


def _secret(secret: str) -> ShownOnce:
    return ShownOnce(label="Signing secret", text=secret, hint="Store it in the configuration of the receiver.")
