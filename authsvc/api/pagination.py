"""Pages of a list: the query parameters that ask for one, and the links to the next and the last one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict

from authsvc.errors import ValidationFailed

_DEFAULT_SIZE = 50
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_LARGEST_NUMBER = 2**64 - 1
_LARGEST_BIGINT = 2**63 - 1
_FORWARDED = "apikey"
"""Client libraries send it with every request, for gateways in front of the service."""


class ListParameterInvalid(ValidationFailed):
    """A parameter of a list is empty or unknown; ignoring it would list everything."""


class PaginationInvalid(ValidationFailed):
    hint = "Send whole numbers, for example page=1 and per_page=50."

    def __init__(self, reason: str) -> None:
        super().__init__(f"Bad Pagination Parameters: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The requested page. `number` counts from 1; 0 means the same as 1."""

    number: int = 1
    size: int = _DEFAULT_SIZE

    @property
    def limit(self) -> int:
        return min(self.size, _LARGEST_BIGINT)

    @property
    def offset(self) -> int:
        return min(max(self.number - 1, 0) * self.size, _LARGEST_BIGINT)


def parse(parameters: QueryDict) -> PageRequest:
    """The page that `page` and `per_page` name; an empty parameter counts as absent. Raises PaginationInvalid."""
    number, size = natural(parameters, "page"), natural(parameters, "per_page")
    if size == 0:
        raise PaginationInvalid("per_page must be greater than 0")
    return PageRequest(number=1 if number is None else number, size=_DEFAULT_SIZE if size is None else size)


def requires_fresh(request: HttpRequest) -> bool:
    """True if the client asks for current data (`Cache-Control: no-cache`, RFC 9111, section 5.2.1.4)."""
    directives = request.headers.get("Cache-Control", "").lower().split(",")
    return "no-cache" in (directive.strip() for directive in directives)


def natural(parameters: QueryDict, name: str) -> int | None:
    """A number from 0 to 2^64 - 1, None when absent or empty. Raises PaginationInvalid."""
    text = first(parameters, name)
    if not text:
        return None
    quoted = json.dumps(text, ensure_ascii=False)
    if not _DIGITS.fullmatch(text):
        raise PaginationInvalid(f"strconv.ParseUint: parsing {quoted}: invalid syntax")
    # The length first: converting a text of a thousand digits would be wasted work.
    if len(text.lstrip("0")) > len(str(_LARGEST_NUMBER)) or int(text) > _LARGEST_NUMBER:
        raise PaginationInvalid(f"strconv.ParseUint: parsing {quoted}: value out of range")
    return int(text)


def first(parameters: QueryDict, name: str) -> str:
    """The first occurrence of a parameter, empty when absent."""
    values = parameters.getlist(name)
    return values[0] if values else ""


def refuse_unknown(parameters: QueryDict, allowed: Collection[str]) -> None:
    """Raise ListParameterInvalid for a misspelt parameter, which would otherwise list everything."""
    for name, values in parameters.lists():
        if name not in allowed and name != _FORWARDED:
            raise ListParameterInvalid(f"Unknown parameter: {name}")
        if any("\0" in value for value in values):
            raise ListParameterInvalid(f"The parameter {name} must not contain U+0000")


def total_if_last(page: PageRequest, *, shown: int) -> int | None:
    """The number of rows on all pages when this page is the last one, else None."""
    return page.offset + shown if shown < page.limit and (shown or not page.offset) else None


def links(path: str, parameters: QueryDict, *, page: PageRequest, total: int) -> str:
    """The Link header (RFC 8288) of a page, with the parameters of each target sorted by name."""
    pages = -(-total // page.size)
    targets = []
    if pages > page.number:
        targets.append(f'<{url(path, parameters, page=page.number + 1)}>; rel="next"')
    targets.append(f'<{url(path, parameters, page=pages)}>; rel="last"')
    return ", ".join(targets)


def url(path: str, parameters: QueryDict, **changed: str | int | None) -> str:
    """The path with these parameters, of which `changed` replaces some and removes those whose value is None."""
    query: dict[str, list[str]] = {name: list(values) for name, values in parameters.lists()}
    for name, value in changed.items():
        query.pop(name, None)
        if value is not None:
            query[name] = [str(value)]
    return f"{path}?{urlencode(sorted(query.items()), doseq=True)}"
