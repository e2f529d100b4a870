"""The timeline of a user: events that the model admins of several apps contribute, newest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from heapq import nlargest
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from django.core.exceptions import BadRequest
from django.db.models import Q
from django.http import HttpRequest
from django.utils.safestring import SafeString

from authsvc.console import formatting
from authsvc.console.user_panels import Panel, PanelLink, PanelRow
from authsvc.db.read_replica import within_timeout

_STATEMENT_TIMEOUT = 1_000
"""Milliseconds."""
_SEPARATOR = "_"


class Kind(StrEnum):
    """A kind of events, as in the URL."""

    SIGN_IN = "sign-ins"
    REFUSAL = "refused"
    MESSAGE = "messages"
    CHANGE = "changes"
    NOTE = "notes"


LABELS: Mapping[Kind, str] = {
    Kind.SIGN_IN: "Sign-ins",
    Kind.REFUSAL: "Refused",
    Kind.MESSAGE: "Messages",
    Kind.CHANGE: "Changes",
    Kind.NOTE: "Notes",
}


class Position(NamedTuple):
    """The time and ID of an event, which order the timeline."""

    at: datetime
    id: UUID

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC).replace(tzinfo=None).isoformat()}{_SEPARATOR}{self.id}"

    @property
    def follower(self) -> Q:
        """The condition on rows with `created_at` and `id` that follow this event."""
        return Q(created_at__lte=self.at) & (Q(created_at__lt=self.at) | Q(id__lt=self.id))


START = Position(datetime.max.replace(tzinfo=UTC), UUID(int=2**128 - 1))
"""Before the newest event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One row; personal data is already hidden from viewers."""

    at: datetime
    id: UUID
    title: SafeString | str
    actor: str = ""
    details: str = ""
    """Text of one or more lines."""
    address: str = ""
    device: str = ""
    url: str = ""
    """URL of the page that describes the event."""

    @property
    def position(self) -> Position:
        return Position(self.at, self.id)


@runtime_checkable
class HasTimeline(Protocol):
    """A model admin that contributes events."""

    def timeline_events(
        self, request: HttpRequest, user_id: UUID, *, kinds: Collection[Kind], before: Position, limit: int
    ) -> Iterable[TimelineEvent]:
        """At most `limit` events of these kinds that follow `before`, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    panel: Panel
    last: Position | None
    """The last event of the panel if others follow it."""


def read_timeline(
    request: HttpRequest,
    model_admins: Iterable[object],
    user_id: UUID,
    *,
    kinds: Collection[Kind],
    before: Position = START,
    limit: int,
    links: Sequence[PanelLink],
    more_url: str = "",
) -> Timeline:
    """The newest events of a user after `before`. Each statement reads an index up to a limit, or is cancelled.

    The panel has `links`, and `more_url` if others follow.
    """

    def read() -> list[TimelineEvent]:
        found = [
            event
            for model_admin in model_admins
            if isinstance(model_admin, HasTimeline)
            for event in model_admin.timeline_events(request, user_id, kinds=kinds, before=before, limit=limit + 1)
        ]
        return nlargest(limit + 1, found, key=lambda event: event.position)

    events = within_timeout(read, milliseconds=_STATEMENT_TIMEOUT)
    empty_text = "No events." if events is not None else "Reading the events took too long. Choose one kind of events."
    events = events or []
    has_more = len(events) > limit
    panel = Panel(
        title="Timeline",
        columns=("Time", "Event", "Actor", "Details", "Address", "Device"),
        rows=[_row(event) for event in events[:limit]],
        empty_text=empty_text,
        more_url=more_url if has_more else "",
        links=links,
        position=40,
    )
    return Timeline(panel=panel, last=events[limit - 1].position if has_more else None)


def selected_kind(request: HttpRequest) -> Kind | None:
    """The kind in the URL; None for all. Raises BadRequest for an unknown one."""
    text = request.GET.get("kind")
    try:
        return Kind(text) if text else None
    except ValueError:
        raise BadRequest("There is no such kind of events.") from None


def selected_position(request: HttpRequest) -> Position:
    """The position in the URL, else START. Raises BadRequest for an invalid one."""
    text = request.GET.get("before")
    if not text:
        return START
    at, _, id_ = text.partition(_SEPARATOR)
    try:
        return Position(datetime.fromisoformat(at).replace(tzinfo=UTC), UUID(id_))
    except ValueError:
        raise BadRequest("There is no such position.") from None


def _row(event: TimelineEvent) -> PanelRow:
    details = formatting.long_text(event.details) if event.details else None
    cells = (event.at, event.title, event.actor, details, event.address, event.device)
    return PanelRow(cells=[cell or None for cell in cells], url=event.url)
