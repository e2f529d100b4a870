"""Which users a list shows, as the query string says it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson
from django.http import QueryDict

from accounts import errors
from accounts.users import identifiers
from accounts.users.search import paging
from authsvc.security import crypto

PARAMETERS = frozenset(
    ("page", "per_page", "sort", "filter", "email", "phone", "id", "count", "limit", "cursor"),
)
_CONDITIONS = ("filter", "email", "phone", "id")
_MOST_BY_CURSOR = 1000
_DEFAULT_BY_CURSOR = 50
_NEVER = datetime.max.replace(tzinfo=UTC)
_TRAILING_ZEROS = re.compile(r"\.?0+Z$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions that all hold, and the order by age. An empty condition is none."""

    aud: str
    filter: str = ""
    """Part of an address or of the full name; `%` and `_` stand for any text and any character."""
    email: str = ""
    phone: str = ""
    id: UUID | None = None
    is_ascending: bool = False
    count_exactly: bool = False

    @property
    def is_unconditional(self) -> bool:
        """Whether everybody in the audience is meant."""
        return not (self.filter or self.is_exact)

    @property
    def is_exact(self) -> bool:
        """Whether a unique index leads to the users meant."""
        return bool(self.email or self.phone or self.id)


@dataclass(frozen=True, slots=True)
class Position:
    """The last user of a page, after whom the next one begins."""

    created_at: datetime | None
    """None of a user whose row does not say it: they are sorted as the latest."""
    id: UUID


def read(parameters: QueryDict, *, aud: str) -> Selection:
    """Raises ListParameterInvalid for what is empty or unknown, and SortInvalid."""
    paging.refuse_unknown(parameters, PARAMETERS)
    given = {name: paging.first(parameters, name) for name in _CONDITIONS if name in parameters}
    for name, value in given.items():
        if not value:
            raise errors.ListParameterInvalid(f"The parameter {name} must not be empty")
    is_ascending = _is_ascending(parameters.getlist("sort"))
    count = paging.first(parameters, "count")
    if "count" in parameters and count != "exact":
        raise errors.ListParameterInvalid("The parameter count can only be exact")
    phone = identifiers.bare_phone(given.get("phone", ""))
    if "phone" in given and not phone:
        raise errors.ListParameterInvalid("The parameter phone must not be empty")
    return Selection(
        aud=aud,
        filter=given.get("filter", ""),
        email=identifiers.lower_email(given.get("email", "")),
        phone=phone,
        id=_id(given["id"]) if "id" in given else None,
        is_ascending=is_ascending,
        count_exactly=bool(count),
    )


def read_position(parameters: QueryDict) -> tuple[Position | None, int]:
    """After whom to go on, and the most users to show. Raises PaginationInvalid."""
    limit = paging.natural(parameters, "limit")
    if limit == 0:
        raise errors.PaginationInvalid("limit must be greater than 0")
    cursor = paging.first(parameters, "cursor")
    size = _DEFAULT_BY_CURSOR if limit is None else min(limit, _MOST_BY_CURSOR)
    return (read_cursor(cursor) if cursor else None), size


def cursor(position: Position) -> str:
    """What a client sends to go on after this user."""
    moment = (position.created_at or _NEVER).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    told = {"created_at": _TRAILING_ZEROS.sub("Z", moment) if moment.endswith("0Z") else moment, "id": str(position.id)}
    return crypto.base64url_encode(orjson.dumps(told))


def read_cursor(text: str) -> Position:
    """Raises PaginationInvalid."""
    try:
        told = orjson.loads(crypto.base64url_decode(text))
        created_at, user_id = datetime.fromisoformat(told["created_at"]).astimezone(UTC), UUID(told["id"])
    except (ValueError, OverflowError, TypeError, AttributeError, KeyError):
        raise errors.PaginationInvalid("invalid cursor") from None
    if not user_id.int:
        raise errors.PaginationInvalid("invalid cursor: it names nobody")
    return Position(created_at=None if created_at == _NEVER else created_at, id=user_id)


def _id(text: str) -> UUID:
    found = identifiers.uuid(text)
    if found is None:
        raise errors.ListParameterInvalid("The parameter id must be a UUID")
    return found


def _is_ascending(sorts: list[str]) -> bool:
    """The first one counts; all are checked."""
    directions = []
    for sort in sorts:
        field, separated, direction = sort.partition(" ")
        if field != "created_at":
            raise errors.SortInvalid(f"bad field for sort '{field}'")
        if separated and direction.lower() not in ("asc", "desc"):
            raise errors.SortInvalid(f"bad direction for sort '{direction}', only 'asc' and 'desc' allowed")
        directions.append(direction.lower())
    return bool(directions) and directions[0] == "asc"
