"""Hides personal data from viewers until they ask for a page, which the audit trail records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from authsvc.console.operators import operator_of
from authsvc.operator_access import Access

HIDDEN = "•••"
SHOWN_FOR = timedelta(minutes=15)
"""Time for which a page shows its personal data after the request."""
_SHOWN_PAGE = "shown_page"
_SHOWN_UNTIL = "shown_until"
_DIGITS = re.compile(r"\+?\d+")
_MIN_LENGTH_WITH_END = 8
"""Length of a phone number whose last two digits are shown."""
_EMAIL = re.compile(r"([^\s@<>\"',;:])[^\s@<>\",;:]*@([^\s@<>\"',;:])[^\s@<>\"',;:]*")
# The look-arounds exclude the digits of an ID.
_PHONE = re.compile(r"(?<![\w-])\+?\d{6,13}(\d\d)(?![\w-])")


def is_hidden(request: HttpRequest) -> bool:
    """True if the page of this request must hide personal data from its operator."""
    if operator_of(request).access > Access.VIEWER:
        return False
    session = request.session
    is_shown = session.get(_SHOWN_PAGE) == request.get_full_path()
    return not (is_shown and timezone.now().timestamp() < session.get(_SHOWN_UNTIL, 0))


def show(request: HttpRequest, *, page: str, at: datetime) -> None:
    """Show the personal data of a page for a time. The caller records it."""
    request.session[_SHOWN_PAGE] = page
    request.session[_SHOWN_UNTIL] = int((at + SHOWN_FOR).timestamp())


def mask_text(text: str | None) -> str:
    """A text without the email addresses and phone numbers in it: `a•••@e•••`, `•••67`."""
    masked = _EMAIL.sub(rf"\1{HIDDEN}@\2{HIDDEN}", text or "")
    return _PHONE.sub(rf"{HIDDEN}\1", masked)


def mask_address(text: str | None) -> str:
    """An email address or phone number of any form without most of it; another text as `mask_text`."""
    local_part, at_sign, rest = (text or "").rpartition("@")
    if at_sign:
        return f"{local_part[:1]}{HIDDEN}@{rest[:1]}{HIDDEN}"
    if _DIGITS.fullmatch(rest):
        return f"{HIDDEN}{rest[-2:]}" if len(rest) >= _MIN_LENGTH_WITH_END else HIDDEN
    return mask_text(rest)


def mask_value(value: Any) -> Any:
    """A JSON value with `mask_text` applied to every text."""
    match value:
        case str():
            return mask_text(value)
        case Mapping():
            return {name: mask_value(item) for name, item in value.items()}
        case list():
            return [mask_value(item) for item in value]
    return value
