"""Pages of a list as clients ask for them, and the links to the next and the last one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict

from accounts import errors

_DEFAULT_SIZE = 50
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_MOST = 2**64 - 1
_MOST_ROWS = 2**63 - 1
_FORWARDED = "apikey"
"""Client libraries put it on every request, for gateways in front of the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`number` counts from 1; 0 is as good."""

    number: int = 1
    size: int = _DEFAULT_SIZE

    @property
    def limit(self) -> int:
        return min(self.size, _MOST_ROWS)

    @property
    def offset(self) -> int:
        return min(max(self.number - 1, 0) * self.size, _MOST_ROWS)


def read(parameters: QueryDict) -> Page:
    """The page of `page` and `per_page`; empty is as good as absent. Raises PaginationInvalid."""
    number, size = natural(parameters, "page"), natural(parameters, "per_page")
    if size == 0:
        raise errors.PaginationInvalid("per_page must be greater than 0")
    return Page(number=1 if number is None else number, size=_DEFAULT_SIZE if size is None else size)


def natural(parameters: QueryDict, name: str) -> int | None:
    """A number from 0 to 2^64 - 1, None when absent or empty. Raises PaginationInvalid."""
    text = first(parameters, name)
    if not text:
        return None
    quoted = json.dumps(text, ensure_ascii=False)
    if not _DIGITS.fullmatch(text):
        raise errors.PaginationInvalid(f"strconv.ParseUint: parsing {quoted}: invalid syntax")
    # The length first: a text of a thousand digits is not worth making a number of.
    if len(text.lstrip("0")) > len(str(_MOST)) or int(text) > _MOST:
        raise errors.PaginationInvalid(f"strconv.ParseUint: parsing {quoted}: value out of range")
    return int(text)


def first(parameters: QueryDict, name: str) -> str:
    """The first occurrence of a parameter, empty when absent."""
    values = parameters.getlist(name)
    return values[0] if values else ""


def refuse_unknown(parameters: QueryDict, known: Collection[str]) -> None:
    """Refuse a misspelt condition, which would otherwise mean "all". Raises ListParameterInvalid."""
    for name, values in parameters.lists():
        if name not in known and name != _FORWARDED:
            raise errors.ListParameterInvalid(f"Unknown parameter: {name}")
        if any("\0" in value for value in values):
            raise errors.ListParameterInvalid(f"The parameter {name} must not contain U+0000")


def total_if_seen(page: Page, *, shown: int) -> int | None:
    """How many rows there are in all, where the page that was read shows it: it has the last ones."""
    return page.offset + shown if shown < page.limit and (shown or not page.offset) else None


def links(path: str, parameters: QueryDict, *, page: Page, total: int) -> str:
    """The Link header (RFC 8288) of a page; its targets have their parameters in the order of their names."""
    pages = -(-total // page.size)
    found = []
    if pages > page.number:
        found.append(f'<{url(path, parameters, page=page.number + 1)}>; rel="next"')
    found.append(f'<{url(path, parameters, page=pages)}>; rel="last"')
    return ", ".join(found)


def url(path: str, parameters: QueryDict, **changed: str | int | None) -> str:
    """The path with these parameters, some of them changed and, where the value is None, left out."""
    asked: dict[str, list[str]] = {name: list(values) for name, values in parameters.lists()}
    for name, value in changed.items():
        asked.pop(name, None)
        if value is not None:
            asked[name] = [str(value)]
    return f"{path}?{urlencode(sorted(asked.items()), doseq=True)}"
