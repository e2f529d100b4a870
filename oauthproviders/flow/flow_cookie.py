"""The cookie that binds a flow to the browser in which it was started."""

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


def set(response: HttpResponse, *, flow_id: UUID) -> None:
    """Sets the cookie of a flow, if binding is enabled."""
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
        # Apple returns to the callback with a cross-site POST.
        samesite="None" if is_secure else "Lax",
    )


def is_present(flow_id: UUID, cookies: Mapping[str, str]) -> bool:
    """True if the request has the cookie of this flow."""
    return crypto.constant_time_equal(cookies.get(_name(flow_id), ""), _value(flow_id))


def _name(flow_id: UUID) -> str:
    return f"flow-{flow_id}"


def _value(flow_id: UUID) -> str:
    digest = hmac.digest(crypto.derive_key(_KEY_LABEL), flow_id.bytes, hashlib.sha256)
    return crypto.base64url_encode(digest)
