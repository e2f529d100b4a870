"""The audit trail in the console."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.safestring import SafeString

from authsvc.audit import Action, search
from authsvc.console import filters, formatting
from authsvc.console.formatting import NOTHING, Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.read_only_admin import MOST_COUNTED
from authsvc.console.user_panels import MOST_LINES, Line, Panel
from authsvc.models import AuditLogEntry

_NAMES = ("user_id", "user_email", "user_phone")
"""Traits that say whom an administrator has acted on."""
_TITLES = {
    Action.LOGIN: "Signed in",
    Action.LOGOUT: "Signed out",
    Action.INVITE_ACCEPTED: "Invitation accepted",
    Action.SIGNED_UP: "Signed up",
    Action.INVITED: "Invited",
    Action.DELETED: "Deleted",
    Action.MODIFIED: "Account changed",
    Action.RECOVERY_REQUESTED: "Recovery or code requested",
    Action.REAUTHENTICATION_REQUESTED: "Reauthentication requested",
    Action.CONFIRMATION_REQUESTED: "Confirmation requested",
    Action.REPEATED_SIGNUP: "Signed up again",
    Action.UPDATED_PASSWORD: "Password changed",
    Action.TOKEN_REVOKED: "Token revoked",
    Action.TOKEN_REFRESHED: "Token refreshed",
    Action.IDENTITY_LINKED: "Identity linked",
    Action.IDENTITY_UNLINKED: "Identity unlinked",
    Action.FACTOR_ENROLLED: "Factor enrolment begun",
    Action.CHALLENGE_CREATED: "Factor asked for",
    Action.FACTOR_VERIFIED: "Factor verified",
    Action.FACTOR_UNENROLLED: "Factor removed",
    Action.RECOVERY_CODES_CREATED: "Recovery codes made",
    Action.RECOVERY_CODE_USED: "Recovery code used",
    Action.FACTOR_DELETED: "Factor removed by an administrator",
    Action.FACTOR_UPDATED: "Factor changed",
    Action.PASSKEY_CREATED: "Passkey registered",
    Action.PASSKEY_UPDATED: "Passkey renamed",
    Action.PASSKEY_DELETED: "Passkey removed",
}
_GRAVE = frozenset({Action.DELETED, Action.FACTOR_DELETED, Action.TOKEN_REVOKED})


class ActionFilter(filters.Choice):
    title = "action"
    parameter_name = "payload__action"
    options = tuple((action.value, _TITLES.get(action, action.value)) for action in Action)


@admin.register(AuditLogEntry)
class AuditLogEntryAdmin(OperatorAdmin):
    list_display = ("created_at", "action", "actor", "subject", "details", "address")
    list_filter = (ActionFilter, filters.Day)
    search_fields = ("id",)  # shows the box
    search_help_text = "A user's id, an address, or any text of the chosen day"
    ordering = ("-created_at", "-id")
    sortable_by = ()
    fields = ("created_at", "action", "actor", "subject", "address", "whole", "id")

    class Media:
        css = {"all": ("operator/content.css",)}

    def about_user(self, user_id: UUID) -> Panel:
        found = search.entries_about_user(user_id, limit=MOST_LINES + 1)
        lines = []
        for entry in found[:MOST_LINES]:
            payload = json.loads(entry.payload_json)
            row = AuditLogEntry(id=entry.id, payload=payload, created_at=entry.created_at, ip_address=entry.address)
            cells = (
                row.created_at,
                self.action(row),
                _name_of_actor(payload),
                self.details(row),
                row.ip_address or None,
            )
            lines.append(Line(cells=cells, url=self.row_url(row)))
        return Panel(
            title="Audit trail",
            columns=("Time", "What", "By", "Details", "Address"),
            lines=lines,
            empty="Nothing is on record.",
            more_url=self.list_url(q=user_id) if len(found) > MOST_LINES else "",
            place=50,
        )

    def name_of(self, row: AuditLogEntry) -> str:
        return f"{_title(row)}, {formatting.moment(row.created_at)}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        text = search_term.strip()
        if not text:
            return queryset, False
        if user_id := _uuid(text):
            return queryset.filter(
                pk__in=[each.id for each in search.entries_about_user(user_id, limit=MOST_COUNTED)]
            ), False
        if filters.Day.parameter_name not in request.GET:
            queryset = filters.latest(queryset)
        queryset = queryset.annotate(text=Cast("payload", TextField()))
        return queryset.filter(Q(text__icontains=text) | Q(ip_address=text)), False

    @admin.display(description="what")
    def action(self, row: AuditLogEntry) -> SafeString | str:
        action = _payload(row).get("action")
        return formatting.word(_title(row), Tone.BAD) if action in _GRAVE else _title(row)

    @admin.display(description="by")
    def actor(self, row: AuditLogEntry) -> SafeString | str:
        payload = _payload(row)
        name = _name_of_actor(payload)
        is_administrator = payload.get("actor_id") == str(UUID(int=0))
        return name if is_administrator else formatting.user_link(payload.get("actor_id"), name)

    @admin.display(description="about")
    def subject(self, row: AuditLogEntry) -> SafeString | str:
        traits = _traits(row)
        return formatting.user_link(traits.get("user_id"), traits.get("user_email") or traits.get("user_phone"))

    @admin.display(description="details")
    def details(self, row: AuditLogEntry) -> str:
        told = (f"{name.replace('_', ' ')}: {value}" for name, value in _traits(row).items() if name not in _NAMES)
        return ", ".join(told) or NOTHING

    @admin.display(description="address")
    def address(self, row: AuditLogEntry) -> str:
        return row.ip_address or NOTHING

    @admin.display(description="whole entry")
    def whole(self, row: AuditLogEntry) -> SafeString | str:
        return formatting.pretty(row.payload)


def _payload(row: AuditLogEntry) -> Mapping[str, Any]:
    return row.payload if isinstance(row.payload, dict) else {}


def _traits(row: AuditLogEntry) -> Mapping[str, Any]:
    traits = _payload(row).get("traits")
    return traits if isinstance(traits, dict) else {}


def _title(row: AuditLogEntry) -> str:
    action = str(_payload(row).get("action", "unknown"))
    return _TITLES.get(Action(action), action) if action in set(Action) else action.replace("_", " ")


def _name_of_actor(payload: Mapping[str, Any]) -> str:
    name = str(payload.get("actor_username") or payload.get("actor_id") or NOTHING)
    return f"{name} (administrator)" if payload.get("actor_id") == str(UUID(int=0)) else name


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
