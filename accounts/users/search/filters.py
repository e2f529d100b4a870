"""The filters, order and position of a list of users, from the query string."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson
from django.http import QueryDict

from accounts.users import identifiers
from authsvc.api import pagination
from authsvc.api.pagination import ListParameterInvalid, PaginationInvalid
from authsvc.errors import ValidationFailed
from authsvc.security import crypto

PARAMETERS = frozenset(
    ("page", "per_page", "sort", "filter", "email", "phone", "id", "count", "limit", "cursor"),
)
_CONDITIONS = ("filter", "email", "phone", "id")
_LARGEST_PAGE_BY_CURSOR = 1000
_DEFAULT_SIZE_BY_CURSOR = 50
_NEVER = datetime.max.replace(tzinfo=UTC)
_TRAILING_ZEROS = re.compile(r"\.?0+Z$")


class SortInvalid(ValidationFailed):
    def __init__(self, reason: str) -> None:
        super().__init__(f"Bad Sort Parameters: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFilter:
    """Conditions that all hold, and the order by age. An empty condition is ignored."""

    aud: str
    text: str = ""
    """Part of an address or of the full name; `%` matches any text, `_` any character."""
    email: str = ""
    phone: str = ""
    id: UUID | None = None
    is_ascending: bool = False
    count_exactly: bool = False

    @property
    def is_unconditional(self) -> bool:
        """True if every user of the audience matches."""
        return not (self.text or self.is_exact)

    @property
    def is_exact(self) -> bool:
        """True if a unique index finds the users that match."""
        return bool(self.email or self.phone or self.id)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last user of a page, after whom the next page begins."""

    created_at: datetime | None
    """None for a row without that time, which is sorted as the latest."""
    id: UUID


def parse(parameters: QueryDict, *, aud: str) -> UserFilter:
    """The filter in a query string.

    Raises SortInvalid, and ListParameterInvalid for a parameter that is empty or unknown.
    """
    pagination.refuse_unknown(parameters, PARAMETERS)
    conditions = {name: pagination.first(parameters, name) for name in _CONDITIONS if name in parameters}
    for name, value in conditions.items():
        if not value:
            raise ListParameterInvalid(f"The parameter {name} must not be empty")
    is_ascending = _is_ascending(parameters.getlist("sort"))
    count = pagination.first(parameters, "count")
    if "count" in parameters and count != "exact":
        raise ListParameterInvalid("The parameter count can only be exact")
    phone = identifiers.bare_phone(conditions.get("phone", ""))
    if "phone" in conditions and not phone:
        raise ListParameterInvalid("The parameter phone must not be empty")
    return UserFilter(
        aud=aud,
        text=conditions.get("filter", ""),
        email=identifiers.lower_email(conditions.get("email", "")),
        phone=phone,
        id=_parse_id(conditions["id"]) if "id" in conditions else None,
        is_ascending=is_ascending,
        count_exactly=bool(count),
    )


def parse_cursor_page(parameters: QueryDict) -> tuple[Cursor | None, int]:
    """The position after which the page begins, and its size. Raises PaginationInvalid."""
    limit = pagination.natural(parameters, "limit")
    if limit == 0:
        raise PaginationInvalid("limit must be greater than 0")
    cursor = pagination.first(parameters, "cursor")
    size = _DEFAULT_SIZE_BY_CURSOR if limit is None else min(limit, _LARGEST_PAGE_BY_CURSOR)
    return (decode_cursor(cursor) if cursor else None), size


def encode_cursor(cursor: Cursor) -> str:
    """The text that a client sends to get the page after this user."""
    moment = (cursor.created_at or _NEVER).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    content = {
        "created_at": _TRAILING_ZEROS.sub("Z", moment) if moment.endswith("0Z") else moment,
        "id": str(cursor.id),
    }
    return crypto.base64url_encode(orjson.dumps(content))


def decode_cursor(text: str) -> Cursor:
    """The user in a client's cursor. Raises PaginationInvalid."""
    try:
        content = orjson.loads(crypto.base64url_decode(text))
        created_at, user_id = datetime.fromisoformat(content["created_at"]).astimezone(UTC), UUID(content["id"])
    except (ValueError, OverflowError, TypeError, AttributeError, KeyError):
        raise PaginationInvalid("invalid cursor") from None
    if not user_id.int:
        raise PaginationInvalid("invalid cursor: it contains no user id")
    return Cursor(created_at=None if created_at == _NEVER else created_at, id=user_id)


def _parse_id(text: str) -> UUID:
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise ListParameterInvalid("The parameter id must be a UUID")
    return user_id


def _is_ascending(sorts: list[str]) -> bool:
    """The direction of the first `sort`; all are validated."""
    directions = []
    for sort in sorts:
        field, separated, direction = sort.partition(" ")
        if field != "created_at":
            raise SortInvalid(f"bad field for sort '{field}'")
        if separated and direction.lower() not in ("asc", "desc"):
            raise SortInvalid(f"bad direction for sort '{direction}', only 'asc' and 'desc' allowed")
        directions.append(direction.lower())
    return bool(directions) and directions[0] == "asc"
