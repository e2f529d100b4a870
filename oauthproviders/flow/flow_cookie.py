"""The tie between a flow and the browser it began in: a cookie that nobody else's browser has."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit
from uuid import UUID

from django.http import HttpResponse

from authsvc import conf
from authsvc.security import crypto

_KEY_LABEL = "oauthproviders.flow-binding"


def tie(response: HttpResponse, *, flow_id: UUID) -> None:
    """Let the browser that gets this response prove later that the flow began in it."""
    if not conf.current().federation.flow_binding_enabled:
        return
    address = urlsplit(conf.current().api.external_url)
    is_secure = address.scheme == "https"
    response.set_cookie(
        _name(flow_id),
        _value(flow_id),
        max_age=conf.current().flows.expiry,
        path=f"{address.path.rstrip('/')}/callback",
        httponly=True,
        secure=is_secure,
        # One provider answers by a form posted from its own pages.
        samesite="None" if is_secure else "Lax",
    )


def is_tied(flow_id: UUID, cookies: Mapping[str, str]) -> bool:
    """Whether these are the cookies of the browser in which the flow began."""
    return crypto.constant_time_equal(cookies.get(_name(flow_id), ""), _value(flow_id))


def _name(flow_id: UUID) -> str:
    return f"flow-{flow_id}"


def _value(flow_id: UUID) -> str:
    digest = hmac.digest(crypto.derive_key(_KEY_LABEL), flow_id.bytes, hashlib.sha256)
    return crypto.base64url_encode(digest)
