"""The timeline on a user's page, and the page of the whole timeline."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.models import OperatorNote
from authsvc.console import personal_data, timeline
from authsvc.console.model_admin import OperatorAdmin
from authsvc.console.timeline import Kind, Position, TimelineEvent
from authsvc.console.user_panels import MAX_PANEL_ROWS, Panel, PanelLink

PAGE_NAME = "accounts_user_timeline"
_PAGE_SIZE = 50
_KINDS_OF_PANEL = tuple(kind for kind in Kind if kind != Kind.NOTE)
"""The page has a panel of notes too."""
_LINKS: tuple[tuple[Kind | None, str], ...] = ((None, "All"), *timeline.LABELS.items())


def urls(model_admin: OperatorAdmin) -> list[URLPattern]:
    view = model_admin.admin_site.admin_view(partial(show_timeline, model_admin))
    return [path("<path:object_id>/timeline/", view, name=PAGE_NAME)]


def timeline_url(user_id: object, **parameters: Any) -> str:
    query = {name: str(value) for name, value in parameters.items() if value}
    return str(reverse(f"admin:{PAGE_NAME}", args=[user_id], query=query))


def panel(model_admin: OperatorAdmin, request: HttpRequest, user_id: Any) -> Panel:
    """The newest events, with links to the page of the whole timeline."""
    read = timeline.read_timeline(
        request,
        model_admin.admin_site._registry.values(),
        user_id,
        kinds=_KINDS_OF_PANEL,
        limit=MAX_PANEL_ROWS,
        links=[PanelLink(label, timeline_url(user_id, kind=kind)) for kind, label in _LINKS],
        more_url=timeline_url(user_id),
    )
    return read.panel


def show_timeline(model_admin: OperatorAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """A page of the timeline. The URL has the kind of events, and the event that the page follows."""
    row = model_admin.get_object(request, object_id)
    if row is None:
        raise Http404
    kind, before = timeline.selected_kind(request), timeline.selected_position(request)
    read = timeline.read_timeline(
        request,
        model_admin.admin_site._registry.values(),
        row.pk,
        kinds=[kind] if kind else tuple(Kind),
        before=before,
        limit=_PAGE_SIZE,
        links=[PanelLink(label, timeline_url(row.pk, kind=linked), linked == kind) for linked, label in _LINKS],
    )
    context = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": "Timeline",
        "subtitle": model_admin.display_name(row),
        "row_name": model_admin.display_name(row),
        "row_url": model_admin.row_url(row),
        "panels": [read.panel],
        "newest_url": timeline_url(row.pk, kind=kind) if before != timeline.START else "",
        "older_url": timeline_url(row.pk, kind=kind, before=read.last) if read.last else "",
    }
    return TemplateResponse(request, "operator/timeline.html", context)


def notes(user_id: Any, *, is_hidden: bool, before: Position, limit: int) -> Iterator[TimelineEvent]:
    """The notes about a user as events."""
    rows = OperatorNote.objects.filter(before.follower, user_id=user_id).order_by("-created_at", "-id")
    for note in rows[:limit]:
        yield TimelineEvent(
            at=note.created_at,
            id=note.id,
            title="Note",
            actor=personal_data.mask_address(note.author) if is_hidden else note.author,
            details=personal_data.HIDDEN if is_hidden else note.text,
        )
