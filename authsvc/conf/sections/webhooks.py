"""Settings of the lifecycle webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from authsvc.conf.declaration import setting
from authsvc.conf.value_types import BOOLEAN, COUNT, DURATION, DURATIONS, choice

_MAX_RETRIES = 20
_MIN_TIMEOUT = timedelta(seconds=1)
_MAX_TIMEOUT = timedelta(seconds=30)
_MAX_PAUSE = timedelta(days=7)
_MIN_RETENTION = timedelta(hours=1)


def _check_timeout(timeout: timedelta) -> str:
    return "" if _MIN_TIMEOUT <= timeout <= _MAX_TIMEOUT else "must be between 1s and 30s"


def _check_schedule(pauses: tuple[timedelta, ...]) -> str:
    if len(pauses) > _MAX_RETRIES:
        return f"must have at most {_MAX_RETRIES} durations"
    return (
        ""
        if all(timedelta() < pause <= _MAX_PAUSE for pause in pauses)
        else "each must be more than 0s and at most 168h"
    )


def _check_retention(retention: timedelta) -> str:
    return "" if retention >= _MIN_RETENTION else "must be at least 1h"


def _check_not_negative(length: timedelta) -> str:
    return "" if length >= timedelta() else "must not be negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    enabled: bool = setting(
        "AUTH_WEBHOOKS_ENABLED",
        type=BOOLEAN,
        default=False,
        help="Tell endpoints of other systems about changes of users and sessions.",
    )
    max_endpoints: int = setting(
        "AUTH_WEBHOOKS_MAX_ENDPOINTS", type=COUNT, default=10, help="Maximum number of endpoints."
    )
    timeout: timedelta = setting(
        "AUTH_WEBHOOKS_TIMEOUT",
        type=DURATION,
        default=timedelta(seconds=10),
        check=_check_timeout,
        help="Time for the complete response of an endpoint, 1s to 30s.",
    )
    retry_schedule: tuple[timedelta, ...] = setting(
        "AUTH_WEBHOOKS_RETRY_SCHEDULE",
        type=DURATIONS,
        default=tuple(
            timedelta(seconds=seconds) for seconds in (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
        ),
        check=_check_schedule,
        help="Pauses after the failed attempts of a delivery, each changed at random by up to 20 %; at most 20.",
    )
    disable_after: timedelta = setting(
        "AUTH_WEBHOOKS_DISABLE_AFTER",
        type=DURATION,
        default=timedelta(hours=120),
        check=_check_not_negative,
        help="Disable an endpoint that has failed for this time without one success; 0 = never.",
    )
    retention: timedelta = setting(
        "AUTH_WEBHOOKS_RETENTION",
        type=DURATION,
        default=timedelta(hours=720),
        check=_check_retention,
        help="Delete events and their deliveries after this time, unless a delivery is pending; at least 1h.",
    )
    concurrency: int = setting(
        "AUTH_WEBHOOKS_CONCURRENCY",
        type=COUNT,
        default=4,
        minimum=1,
        maximum=64,
        help="Requests to endpoints that a worker process sends at a time, at most two of them to one endpoint.",
    )
    include_user: str = setting(
        "AUTH_WEBHOOKS_INCLUDE_USER",
        type=choice("full", "ids"),
        default="full",
        help="Events contain the user (`full`), or only the id of the user (`ids`).",
    )
    allow_private_networks: bool = setting(
        "AUTH_WEBHOOKS_ALLOW_PRIVATE_NETWORKS",
        type=BOOLEAN,
        default=False,
        help="Endpoints may have `http` URLs, and addresses of private networks and of this machine.",
    )
