"""The configuration request (OpenAPI, `getConfig`)."""

from __future__ import annotations

import re
from datetime import timedelta

from catalogclient import _endpoints
from catalogclient._endpoints import OPERATIONS, Endpoint
from catalogclient._log import CONFIG
from catalogclient._messages import Call, Reply
from catalogclient._operations import reading
from catalogclient._results import CatalogConfig

# ISO 8601 without years and months, whose length depends on the calendar.
_DURATION = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)


def load(warehouse: str | None) -> Call[CatalogConfig]:
    return Call(
        operation=OPERATIONS[Endpoint.LOAD_CONFIG],
        query=(("warehouse", warehouse),) if warehouse is not None else (),
        read=_read,
    )


def _read(reply: Reply) -> CatalogConfig:
    body = reading.document(reply)
    listed = [_endpoints.parse(each) for each in reading.texts(body, "endpoints")]
    return CatalogConfig(
        raw=body,
        defaults=reading.secrets(body, "defaults"),
        overrides=reading.secrets(body, "overrides"),
        endpoints=frozenset(each for each in listed if each) or None,
        idempotency_key_lifetime=duration(body.get("idempotency-key-lifetime")),
    )


def duration(text: object) -> timedelta | None:
    """An ISO 8601 duration of weeks, days, hours, minutes and seconds; None for anything else."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text) if isinstance(text, str) and len(text) < 64 else None
    if match is None or not any(match.groups()):
        CONFIG.debug("a duration of the server is not understood and counts as none")
        return None
    weeks, days, hours, minutes, seconds = (float((each or "0").replace(",", ".")) for each in match.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None
