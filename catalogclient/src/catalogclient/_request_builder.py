"""From a call to the request that goes out: its address and all its header fields but those of authentication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalogclient import _headers, _urls
from catalogclient._messages import Call, PreparedRequest, Unset
from catalogclient._routing import Route
from catalogclient.errors import InvalidArgumentError


def request(
    call: Call[Any],
    route: Route,
    *,
    basic: Mapping[str, str],
    own: Mapping[str, str],
    key: str | None,
    access_delegation: Sequence[str] | None,
) -> PreparedRequest:
    """`basic` is sent with every request; `own` are the caller's fields, `access_delegation` that of the options."""
    path = _urls.path(call.operation.template, call.values, prefix=route.prefix, separator=route.separator)
    query = _urls.query(call.query, separator=route.separator)
    protocol = dict(call.headers)
    if call.body is not None:
        protocol["Content-Type"] = "application/json"
    if key is not None:
        protocol["Idempotency-Key"] = key
    if call.operation.delegating:
        wanted = access_delegation if isinstance(call.access_delegation, Unset) else call.access_delegation
        if wanted:
            protocol["X-Iceberg-Access-Delegation"] = delegation(wanted)
    return PreparedRequest(
        call.operation.method,
        f"{route.root}{path}{query}",
        _headers.merged(basic, route.headers, own, protocol),
        call.body,
    )


def delegation(wanted: Sequence[str]) -> str:
    """The value of X-Iceberg-Access-Delegation."""
    if isinstance(wanted, str):
        raise InvalidArgumentError("access_delegation is a sequence of texts")
    value = ",".join(wanted)
    _headers.check_value(value)
    return value
