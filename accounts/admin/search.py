"""Search and filters of the list of users."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.users import identifiers, queries
from authsvc import conf
from authsvc.console import filters, operators
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
            "operators": Q(role__in=operators.roles()),
            "deleted": Q(deleted_at__isnull=False),
        }
        return queryset.filter(conditions[value])


def find_exactly(text: str) -> list[UUID]:
    """The IDs of the user with this ID, email address or phone number: one, or none."""
    with contextlib.suppress(ValueError):
        return [UUID(text.strip())]
    audience = conf.current().jwt.aud
    with contextlib.suppress(ApiError):
        if "@" in text:
            user = queries.find_by("email", identifiers.email(text.strip()), aud=audience)
        else:
            user = queries.find_by("phone", identifiers.phone(text.strip()), aud=audience)
        return [user.id] if user else []
    return []
