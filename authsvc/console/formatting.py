"""What console pages show beyond plain text: coloured words, indented JSON, links between rows."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

NOTHING = "–"


class Tone(StrEnum):
    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"
    QUIET = "quiet"


def word(text: object, tone: Tone) -> SafeString:
    """A word in the colour of how good its news are."""
    return format_html('<span class="word {}">{}</span>', tone.value, text)


def pretty(value: Any) -> SafeString | str:
    """JSON to be read by people."""
    if not value:
        return NOTHING
    return format_html('<pre class="json">{}</pre>', json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def code(text: object) -> SafeString | str:
    """What is copied rather than read."""
    return format_html("<code>{}</code>", text) if text else NOTHING


def moment(at: datetime | None) -> str:
    return date_format(at, "SHORT_DATETIME_FORMAT") if at else NOTHING


def link(url: str, text: object) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def user_url(user_id: object) -> str:
    """The page of a user; empty where the console has none."""
    options = get_user_model()._meta
    try:
        return reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[user_id])
    except NoReverseMatch:
        return ""


def user_link(user_id: UUID | str | None, text: object = None) -> SafeString | str:
    """A link to the page of a user, who may have been deleted."""
    if not user_id:
        return NOTHING
    url = user_url(user_id)
    shown = text or str(user_id)
    return link(url, shown) if url else str(shown)
