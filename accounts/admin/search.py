"""Search and filters of the list of users."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.users import identifiers, queries
from accounts.users.search import listing, words
from accounts.users.search import queries as queries_of_list
from authsvc import conf, operator_access
from authsvc.console import filters
from authsvc.errors import ApiError

_UNCONFIRMED_FOR = timedelta(days=30)


class StateFilter(filters.ChoiceFilter):
    title = "state"
    parameter_name = "state"
    options = (
        ("banned", "Banned"),
        ("unconfirmed", f"Not confirmed, created in the last {_UNCONFIRMED_FOR.days} days"),
        ("anonymous", "Anonymous"),
        ("operators", "Operators"),
        ("deleted", "Soft-deleted"),
    )

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        at = timezone.now()
        conditions = {
            "banned": Q(banned_until__gt=at),
            "unconfirmed": Q(confirmed_at=None, is_anonymous=False, created_at__gte=at - _UNCONFIRMED_FOR),
            "anonymous": Q(is_anonymous=True),
            "operators": Q(role__in=operator_access.roles()),
            "deleted": Q(deleted_at__isnull=False),
        }
        return queryset.filter(conditions[value])


def find(queryset: QuerySet[User], text: str) -> QuerySet[User]:
    """The users with this ID, address or phone number; else those whose address, phone and name have all words."""
    if ids := listing.find_exact(text, audience=conf.current().jwt.aud):
        return queryset.filter(pk__in=ids)
    typed = words.parse(text)
    if not typed:
        return queryset.none()
    if _is_limited(typed):
        queryset = filters.latest_rows(queryset)
    return words.filter_matching(queryset, typed)


def describe_limits(text: str) -> str:
    """The reason why a search covers the newest users only; empty if it covers all."""
    typed = words.parse(text)
    if not typed or not _is_limited(typed) or listing.find_exact(text, audience=conf.current().jwt.aud):
        return ""
    newest = f"Only the newest {filters.MAX_LATEST_ROWS:,} users are searched"
    if words.is_indexed(typed):
        return f"{newest}, because the search index does not exist. The performance page describes its settings."
    return f"{newest}. Type a letter or digit to search all users."


def _is_limited(typed: list[str]) -> bool:
    """True if the table is too large to be read for a search without an index."""
    return not (words.is_indexed(typed) and words.has_index()) and queries_of_list.is_large_table()


def find_exactly(text: str) -> list[UUID]:
    """The IDs of the user with this ID, email address or phone number: one, or none."""
    if user_id := filters.parse_id(text):
        return [user_id]
    audience = conf.current().jwt.aud
    with contextlib.suppress(ApiError):
        if "@" in text:
            user = queries.find_by("email", identifiers.email(text.strip()), aud=audience)
        else:
            user = queries.find_by("phone", identifiers.phone(text.strip()), aud=audience)
        return [user.id] if user else []
    return []
