"""Builds the request of a call: URL, body and all header fields except authentication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import _headers, _urls
from catalogclient._messages import Call, PreparedRequest, Unset
from catalogclient._routing import Route
from catalogclient.errors import InvalidArgumentError


def build_request(
    call: Call[Any],
    route: Route,
    *,
    basic: Mapping[str, str],
    extra: Mapping[str, str],
    key: str | None,
    access_delegation: Sequence[str] | None,
) -> PreparedRequest:
    """Builds a request. `basic` are default fields, `extra` the caller's fields.

    `access_delegation` is the default from the options.
    """
    path = _urls.path(call.operation.template, call.values, prefix=route.prefix, separator=route.separator)
    defaults = (("snapshots", route.snapshots),) if call.wants_default_snapshots and route.snapshots else ()
    query = _urls.query((*defaults, *call.query), separator=route.separator)
    protocol = dict(call.headers)
    if call.body is not None:
        protocol["Content-Type"] = "application/json"
    if key is not None:
        protocol["Idempotency-Key"] = key
    if call.operation.delegating:
        values = access_delegation if isinstance(call.access_delegation, Unset) else call.access_delegation
        if values:
            protocol["X-Iceberg-Access-Delegation"] = _delegation(values)
    return PreparedRequest(
        call.operation.method,
        f"{route.root}{path}{query}",
        _headers.merged(basic, route.headers, extra, protocol),
        call.body,
    )


def _delegation(values: Sequence[str]) -> str:
    if isinstance(values, str):
        raise InvalidArgumentError("access_delegation must be a sequence of strings")
    value = ",".join(values)
    _headers.check_value(value)
    return value
