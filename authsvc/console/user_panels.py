"""Panels on a user's console page, contributed by the admin pages of other apps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from django.http import HttpRequest

from authsvc.display_text import short_text

MAX_PANEL_ROWS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """Runs the action named `action` of the list at `url` for one row."""

    label: str
    url: str
    action: str
    row: object
    """The row's primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRow:
    """One row: a text or time per column; long texts are cut. The first cell is a link if `url` is set."""

    cells: Sequence[object]
    url: str = ""
    button: Button | None = None

    def __post_init__(self) -> None:
        shortened = [short_text(cell) if type(cell) is str and cell else cell for cell in self.cells]
        object.__setattr__(self, "cells", shortened)


class PanelLink(NamedTuple):
    """A link above the rows, to another selection of them."""

    label: str
    url: str
    is_current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    columns: Sequence[str]
    rows: Sequence[PanelRow]
    empty_text: str
    """Text of a panel without rows."""
    more_url: str = ""
    """URL of the full list, if the panel omits rows."""
    links: Sequence[PanelLink] = ()
    page_links: Sequence[tuple[str, str]] = ()
    """Labels and URLs of pages that change the content of the panel."""
    position: int
    """Sort key among the panels of the page."""

    @property
    def has_buttons(self) -> bool:
        return any(row.button for row in self.rows)


@runtime_checkable
class HasUserPanel(Protocol):
    """A model admin that contributes a panel to a user's page, or None."""

    def user_panel(self, request: HttpRequest, user_id: UUID) -> Panel | None: ...


def collect_panels(request: HttpRequest, model_admins: Iterable[object], user_id: UUID) -> list[Panel]:
    """The panels of these model admins for a user."""
    panels = [
        model_admin.user_panel(request, user_id)
        for model_admin in model_admins
        if isinstance(model_admin, HasUserPanel)
    ]
    return sorted((panel for panel in panels if panel is not None), key=lambda panel: panel.position)
