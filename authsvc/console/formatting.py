"""Formats values for console pages: badges, indented JSON, times, links."""

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

from authsvc import conf
from authsvc.conf import value_types
from authsvc.display_text import EMPTY, without_invisible_characters

_MAX_BLOCK_LENGTH = 100_000


class Tone(StrEnum):
    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"
    QUIET = "quiet"


def badge(text: object, tone: Tone) -> SafeString:
    """A label in the colour of its tone."""
    return format_html('<span class="badge {}">{}</span>', tone.value, text)


def long_text(text: str) -> SafeString:
    """A text of several lines that an operator has written."""
    return format_html('<span class="long-text">{}</span>', without_invisible_characters(text))


def json_block(value: Any) -> SafeString | str:
    """Indented JSON; text for a value that `authsvc.db.fields.JSONField` could not parse. Long values are cut."""
    if not value:
        return EMPTY
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    if len(text) > _MAX_BLOCK_LENGTH:
        text = f"{text[:_MAX_BLOCK_LENGTH]}\n… {len(text) - _MAX_BLOCK_LENGTH:,} more characters"
    return format_html('<pre class="json">{}</pre>', without_invisible_characters(text))


def code(text: object) -> SafeString | str:
    """Monospaced text, such as an ID."""
    return format_html("<code>{}</code>", text) if text else EMPTY


def copy_field(text: str, *, name: str, label: str) -> SafeString:
    """A read-only field with a button that copies its text. The page loads `operator/copy.js`."""
    return format_html(
        '<span class="copy-field"><input type="text" id="{0}" value="{1}" aria-label="{2}" readonly spellcheck="false">'
        ' <button type="button" class="button" data-copies="{0}" aria-describedby="{0}" hidden>Copy</button></span>',
        name, text, label,
    )  # fmt: skip


def datetime_text(at: datetime | None) -> str:
    return date_format(at, "SHORT_DATETIME_FORMAT") if at else EMPTY


def rate_text(rate: conf.Rate) -> str:
    """A limit of messages: `1,000 an hour`, or `10/1h0m0s` for 10 at once and then one an hour."""
    return f"{rate.events:,} an hour" if rate.over is None else value_types.RATE.format(rate)


def link(url: str, text: object) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def user_url(user_id: object) -> str:
    """URL of a user's page, or an empty string if the console has no such page."""
    options = get_user_model()._meta
    try:
        return reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[user_id])
    except NoReverseMatch:
        return ""


def user_link(user_id: UUID | str | None, text: object = None) -> SafeString | str:
    """A link to a user's page. The user may have been deleted."""
    if not user_id:
        return EMPTY
    url = user_url(user_id)
    label = text or str(user_id)
    return link(url, label) if url else str(label)
