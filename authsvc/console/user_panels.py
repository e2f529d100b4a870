"""Blocks on a user's page of the console that come from apps which the page's own app does not know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from uuid import UUID

MOST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """An action of a list for one of its rows; `url` is the list's address, `action` the name of the action."""

    label: str
    url: str
    action: str
    row: object
    """The row's primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row: texts or times, one for each column; the first one is a link to `url` where there is one."""

    cells: Sequence[object]
    url: str = ""
    button: Button | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    columns: Sequence[str]
    lines: Sequence[Line]
    empty: str
    """What is said where there are no lines."""
    more_url: str = ""
    """Where all lines are, if some are left out here."""
    place: int
    """Panels are shown in the order of their places."""


@runtime_checkable
class TellsOfUsers(Protocol):
    """A page of the console that has something to say about users."""

    def about_user(self, user_id: UUID) -> Panel: ...


def about(pages: Iterable[object], user_id: UUID) -> list[Panel]:
    """What these pages, the others of the console, say about a user."""
    found = [page.about_user(user_id) for page in pages if isinstance(page, TellsOfUsers)]
    return sorted(found, key=lambda panel: panel.place)
