"""The audit trail in the operator console."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils.safestring import SafeString

from authsvc import user_agents
from authsvc.audit import Action, search
from authsvc.audit.search import EntryKind
from authsvc.console import filters, formatting, personal_data
from authsvc.console.formatting import Tone
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.read_only_admin import MAX_COUNTED
from authsvc.console.timeline import Kind, Position, TimelineEvent
from authsvc.db.fields import parse_json
from authsvc.display_text import EMPTY, short_text
from authsvc.models import AuditLogEntry

_HIDDEN_TRAITS = ("user_id", "user_email", "user_phone", "changes")
"""Traits that the details do not list: the user on whom an administrator acted, and changes, which follow them."""
_ADDRESSES = frozenset({"actor_username", "impersonator_username", "user_email", "user_phone"})
_HIDDEN_VALUES = frozenset({"provider_id", "filter"})
_TRAIT_LABELS = {"error_code": "cause"}
_MAX_DETAILS = 20
_ENTRY_KINDS = {
    Kind.SIGN_IN: EntryKind.SIGN_IN,
    Kind.REFUSAL: EntryKind.REFUSAL,
    Kind.MESSAGE: EntryKind.MESSAGE,
    Kind.CHANGE: EntryKind.CHANGE,
}
"""Kinds of the timeline, which has the notes themselves instead of entries about them."""
_TITLES = {
    Action.LOGIN: "Signed in",
    Action.LOGOUT: "Signed out",
    Action.SIGN_IN_REFUSED: "Sign-in refused",
    Action.INVITE_ACCEPTED: "Invitation accepted",
    Action.SIGNED_UP: "Signed up",
    Action.INVITED: "Invited",
    Action.DELETED: "Deleted",
    Action.MODIFIED: "Account changed",
    Action.CHANGE_REFUSED: "Account change refused",
    Action.RECOVERY_REQUESTED: "Recovery or code requested",
    Action.REAUTHENTICATION_REQUESTED: "Reauthentication requested",
    Action.CONFIRMATION_REQUESTED: "Confirmation requested",
    Action.REPEATED_SIGNUP: "Repeated sign-up",
    Action.UPDATED_PASSWORD: "Password changed",
    Action.TOKEN_REVOKED: "Token revoked",
    Action.TOKEN_REFRESHED: "Token refreshed",
    Action.IDENTITY_LINKED: "Identity linked",
    Action.IDENTITY_UNLINKED: "Identity unlinked",
    Action.FACTOR_ENROLLED: "Factor enrolment started",
    Action.CHALLENGE_CREATED: "Factor challenged",
    Action.FACTOR_VERIFIED: "Factor verified",
    Action.FACTOR_UNENROLLED: "Factor removed",
    Action.RECOVERY_CODES_CREATED: "Recovery codes created",
    Action.RECOVERY_CODE_USED: "Recovery code used",
    Action.FACTOR_DELETED: "Factor removed by an administrator",
    Action.FACTOR_UPDATED: "Factor changed",
    Action.PASSKEY_CREATED: "Passkey registered",
    Action.PASSKEY_UPDATED: "Passkey renamed",
    Action.PASSKEY_DELETED: "Passkey removed",
    Action.CUSTOM_PROVIDER_CREATED: "Custom provider created",
    Action.CUSTOM_PROVIDER_UPDATED: "Custom provider changed",
    Action.CUSTOM_PROVIDER_DELETED: "Custom provider deleted",
    Action.PROVIDER_TESTED: "Provider tested",
    Action.MESSAGE_RETRIED: "Message retried",
    Action.MESSAGES_RETRIED: "Failed messages retried",
    Action.FAILED_ATTEMPTS_RESET: "Failed attempts reset",
    Action.PERSONAL_DATA_VIEWED: "Personal data viewed",
    Action.PERSONAL_DATA_EXPORTED: "Personal data exported",
    Action.NOTE_ADDED: "Note added",
    Action.OAUTH_CLIENT_CREATED: "OAuth client registered",
    Action.OAUTH_CLIENT_UPDATED: "OAuth client changed",
    Action.OAUTH_CLIENT_DELETED: "OAuth client deleted",
    Action.OAUTH_CLIENT_SECRET_REGENERATED: "OAuth client secret replaced",
    Action.OAUTH_CLIENT_TOKEN_ISSUED: "Access token of an OAuth client issued",
    Action.OAUTH_GRANT_APPROVED: "OAuth access granted",
    Action.OAUTH_GRANT_DENIED: "OAuth access denied",
    Action.LIST_EXPORTED: "List exported",
    Action.WEBHOOK_ENDPOINT_CREATED: "Webhook endpoint created",
    Action.WEBHOOK_ENDPOINT_UPDATED: "Webhook endpoint changed",
    Action.WEBHOOK_ENDPOINT_DELETED: "Webhook endpoint deleted",
    Action.WEBHOOK_ENDPOINT_SECRET_ROTATED: "Webhook secret replaced",
    Action.WEBHOOK_REPLAYED: "Webhook deliveries repeated",
    Action.WEBHOOK_EVENT_VIEWED: "Webhook event viewed",
    Action.IMPERSONATION_REQUESTED: "View as user requested",
    Action.IMPERSONATION_STARTED: "View as user started",
    Action.IMPERSONATION_ENDED: "View as user ended",
}
_HIGHLIGHTED = frozenset(
    {Action.DELETED, Action.FACTOR_DELETED, Action.TOKEN_REVOKED, Action.SIGN_IN_REFUSED, Action.CHANGE_REFUSED}
)


class ActionFilter(filters.ChoiceFilter):
    title = "action"
    parameter_name = "payload__action"
    options = tuple((action.value, _TITLES.get(action, action.value)) for action in Action)


@admin.register(AuditLogEntry)
class AuditLogEntryAdmin(OperatorAdmin):
    list_display = ("created_at", "action", "actor", "subject", "details", "address")
    list_filter = (ActionFilter, filters.DayFilter)
    search_fields = ("id",)  # enables the search box
    search_help_text = "A user ID, an address, or any text of the chosen day"
    ordering = ("-created_at", "-id")
    personal_columns = frozenset({"payload", "ip_address"})
    fields = (
        "created_at",
        "action",
        "actor",
        "subject",
        "address",
        "device",
        "session",
        "request",
        "details",
        "full_entry",
        "id",
    )

    def timeline_events(
        self, request: HttpRequest, user_id: UUID, *, kinds: Collection[Kind], before: Position, limit: int
    ) -> Iterator[TimelineEvent]:
        entry_kinds = [_ENTRY_KINDS[kind] for kind in kinds if kind in _ENTRY_KINDS]
        if not entry_kinds:
            return
        is_hidden = personal_data.is_hidden(request)
        for entry in search.entries_about_user(user_id, limit=limit, kinds=entry_kinds, before=before):
            payload = parse_json(entry.payload_json)
            row = AuditLogEntry(id=entry.id, payload=payload, created_at=entry.created_at, ip_address=entry.address)
            if is_hidden:
                self.hide_personal_data(row)
            is_own = _payload(row).get("actor_id") == str(user_id)
            yield TimelineEvent(
                at=entry.created_at,
                id=entry.id,
                title=self.action(row),
                actor=_add_impersonator("User", _payload(row)) if is_own else _actor_name(_payload(row)),
                details="\n".join(_detail_lines(row)),
                address=row.ip_address,
                device=_device(row),
                url=self.row_url(row),
            )

    def hide_personal_data(self, row: AuditLogEntry) -> None:
        row.ip_address = personal_data.HIDDEN if row.ip_address else ""
        payload = personal_data.mask_value(_payload(row))
        payload.pop("actor_name", None)
        payload.update({name: personal_data.HIDDEN for name in ("reason", "user_agent") if name in payload})
        traits = payload.get("traits")
        for values in (payload, traits if isinstance(traits, dict) else {}):
            values.update({name: personal_data.mask_address(str(values[name])) for name in _ADDRESSES & values.keys()})
            values.update(dict.fromkeys(_HIDDEN_VALUES & values.keys(), personal_data.HIDDEN))
        for change in _changes(payload).values():
            if isinstance(change, dict):
                change.update({name: personal_data.HIDDEN for name, value in change.items() if value is not None})
        row.payload = payload

    def display_name(self, row: AuditLogEntry) -> str:
        return f"{_title(row)}, {formatting.datetime_text(row.created_at)}"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        text = search_term.strip()
        if not text:
            return queryset, False
        if user_id := filters.parse_id(text):
            return queryset.filter(
                pk__in=[entry.id for entry in search.entries_about_user(user_id, limit=MAX_COUNTED)]
            ), False
        if personal_data.is_hidden(request):  # a match would reveal the text
            return queryset.none(), False
        if filters.DayFilter.parameter_name not in request.GET:
            queryset = filters.latest_rows(queryset)
        queryset = queryset.annotate(text=Cast("payload", TextField()))
        return queryset.filter(Q(text__icontains=text) | Q(ip_address=text)), False

    @admin.display(description="action")
    def action(self, row: AuditLogEntry) -> SafeString | str:
        action = str(_payload(row).get("action"))
        return formatting.badge(_title(row), Tone.BAD) if action in _HIGHLIGHTED else _title(row)

    @admin.display(description="actor")
    def actor(self, row: AuditLogEntry) -> SafeString | str:
        payload = _payload(row)
        name = _actor_name(payload)
        has_account = payload.get("actor_id") != str(UUID(int=0))
        return formatting.user_link(_short(payload.get("actor_id")), name) if has_account else name

    @admin.display(description="subject")
    def subject(self, row: AuditLogEntry) -> SafeString | str:
        traits = _traits(row)
        name = _short(traits.get("user_email") or traits.get("user_phone"))
        return formatting.user_link(_short(traits.get("user_id")), name)

    @admin.display(description="details")
    def details(self, row: AuditLogEntry) -> str:
        return ", ".join(_detail_lines(row)) or EMPTY

    @admin.display(description="address")
    def address(self, row: AuditLogEntry) -> str:
        return row.ip_address or EMPTY

    @admin.display(description="device")
    def device(self, row: AuditLogEntry) -> str:
        return _device(row) or EMPTY

    @admin.display(description="session ID")
    def session(self, row: AuditLogEntry) -> SafeString | str:
        return formatting.code(_short(_payload(row).get("session_id")))

    @admin.display(description="request ID")
    def request(self, row: AuditLogEntry) -> SafeString | str:
        return formatting.code(_short(_payload(row).get("request_id")))

    @admin.display(description="full entry")
    def full_entry(self, row: AuditLogEntry) -> SafeString | str:
        return formatting.json_block(row.payload)


def _payload(row: AuditLogEntry) -> Mapping[str, Any]:
    return row.payload if isinstance(row.payload, dict) else {}


def _traits(row: AuditLogEntry) -> Mapping[str, Any]:
    traits = _payload(row).get("traits")
    return traits if isinstance(traits, dict) else {}


def _changes(payload: Mapping[str, Any]) -> dict[str, Any]:
    traits = payload.get("traits")
    changes = traits.get("changes") if isinstance(traits, dict) else None
    return changes if isinstance(changes, dict) else {}


def _title(row: AuditLogEntry) -> str:
    action = str(_payload(row).get("action", "unknown"))
    known = action in set(Action)
    return _TITLES.get(Action(action), action) if known else short_text(action.replace("_", " "))


def _actor_name(payload: Mapping[str, Any]) -> str:
    if payload.get("action") == Action.SIGN_IN_REFUSED:
        return _short(payload.get("actor_username")) or "unknown account"
    name = short_text(payload.get("actor_username") or payload.get("actor_id"))
    if subject := payload.get("actor_sub"):
        name = f"{name}, {short_text(subject)}"
    is_administrator = "actor_role" in payload or payload.get("actor_id") == str(UUID(int=0))
    return f"{name} (administrator)" if is_administrator else _add_impersonator(name, payload)


def _add_impersonator(name: str, payload: Mapping[str, Any]) -> str:
    """The name of a user, with the operator who impersonated the user, if any."""
    impersonator = payload.get("impersonator_username")
    return f"{name} (impersonated by {short_text(impersonator)})" if impersonator else name


def _device(row: AuditLogEntry) -> str:
    return user_agents.describe(str(_payload(row).get("user_agent", "")))


def _detail_lines(row: AuditLogEntry) -> list[str]:
    """Traits, the reason and changes, each in a short line."""
    traits = {
        _TRAIT_LABELS.get(name, name): value for name, value in _traits(row).items() if name not in _HIDDEN_TRAITS
    }
    if reason := _payload(row).get("reason"):
        traits["reason"] = reason
    details = [
        f"{short_text(name.replace('_', ' '))}: {short_text(value)}"
        for name, value in list(traits.items())[:_MAX_DETAILS]
    ]
    changes = list(_changes(_payload(row)).items())
    return details + [_describe_change(name, change) for name, change in changes[:_MAX_DETAILS]]


def _describe_change(name: str, change: Any) -> str:
    title = short_text(name.replace("_", " "))
    if not isinstance(change, dict):
        return title
    old, new = ("none" if change.get(key) is None else short_text(change[key]) for key in ("old", "new"))
    return f"{title}: {old} → {new}"


def _short(value: object) -> str:
    return short_text(value) if value else ""
