"""The time at which a request arrived. Its duration counts from then, because it may have waited for a slot."""

from __future__ import annotations

from django.http import HttpRequest

ARRIVED = "authsvc.arrived"
"""Key of the WSGI environment: when the whole request had arrived, as `time.monotonic` counts."""


def arrival_of(request: HttpRequest, *, now: float) -> float:
    """When the request arrived; `now` if its server does not tell."""
    arrived: float = request.META.get(ARRIVED, now)
    return arrived
