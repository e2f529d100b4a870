"""Endpoints: creation, changes, secrets, deletion. Functions take the id as text and raise EndpointNotFound."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.events import EventType
from authsvc.outgoing import urls
from authsvc.security import encryption
from hooks.models import DisabledReason, WebhookEndpoint
from hooks.webhooks import queries, subscriptions
from hooks.webhooks.errors import EndpointInvalid, EndpointNotFound, EndpointQuotaExceeded

ALL_TYPES = "*"
MAX_DESCRIPTION_LENGTH = 200
DEFAULT_GRACE = timedelta(hours=24)
MAX_GRACE = timedelta(hours=168)
GRACE_INVALID = "grace must be a duration from 0 to 168h"
_MAX_URL_LENGTH = 2048
_SECRET_PREFIX = "whsec_"
_SECRET_BYTES = 32
_SECRET_SIZES = range(24, 65)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointWithSecret:
    """An endpoint and its new secret, which is shown only now."""

    endpoint: WebhookEndpoint
    secret: str = field(repr=False)


def list_all() -> list[WebhookEndpoint]:
    """All endpoints, newest first."""
    return list(WebhookEndpoint.objects.filter(deleted_at__isnull=True).order_by("-created_at", "-id"))


def find(endpoint_id: str) -> WebhookEndpoint:
    """The endpoint with this id. Raises EndpointNotFound. One statement."""
    endpoint = WebhookEndpoint.objects.filter(id=parse_id(endpoint_id), deleted_at__isnull=True).first()
    if endpoint is None:
        raise EndpointNotFound
    return endpoint


def create(
    *,
    url: str | None,
    event_types: Sequence[str] | None = None,
    description: str | None = None,
    secret: str | None = None,
    disabled: bool | None = None,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> EndpointWithSecret:
    """Create an endpoint with a new secret. Raises EndpointInvalid and EndpointQuotaExceeded."""
    if not url:
        raise EndpointInvalid("url is required")
    values = _checked(url=url, event_types=[ALL_TYPES] if event_types is None else event_types, description=description)
    new_secret = _check_secret(secret) if secret is not None else _generate_secret()
    endpoint_id = uuid4()
    endpoint = WebhookEndpoint(
        id=endpoint_id,
        **{"description": "", **values},
        secret=encryption.encrypt(new_secret, bound_to=endpoint_id, always=True),
        disabled_at=at if disabled else None,
        disabled_reason=DisabledReason.MANUAL if disabled else None,
        created_at=at,
        updated_at=at,
    )
    with transaction.atomic(durable=True):
        queries.lock_order()
        number = WebhookEndpoint.objects.filter(deleted_at__isnull=True).count()
        if number >= conf.current().webhooks.max_endpoints:
            raise EndpointQuotaExceeded
        endpoint.save(force_insert=True)
        traits = _traits(endpoint, before={}, after=_audited_values(endpoint))
        audit.record(audit.Action.WEBHOOK_ENDPOINT_CREATED, actor=actor, caller=caller, at=at, traits=traits)
        transaction.on_commit(subscriptions.cache.clear)
    return EndpointWithSecret(endpoint=endpoint, secret=new_secret)


def update(
    endpoint_id: str,
    *,
    url: str | None = None,
    event_types: Sequence[str] | None = None,
    description: str | None = None,
    disabled: bool | None = None,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> WebhookEndpoint:
    """Change the values that are not None. Raises EndpointInvalid.

    The pending deliveries of a disabled endpoint are cancelled by the worker. `disabled=False` ends a failing state.
    """
    with transaction.atomic(durable=True):
        endpoint = _lock(endpoint_id)
        values = _checked(url=url, event_types=event_types, description=description)
        if not values and disabled is None:
            raise EndpointInvalid("No fields provided for update")
        if disabled is False:
            values |= {"disabled_at": None, "disabled_reason": None, "failing_since": None}
        elif disabled and endpoint.disabled_at is None:
            values |= {"disabled_at": at, "disabled_reason": DisabledReason.MANUAL}
        before = _audited_values(endpoint)
        for name, value in values.items():
            setattr(endpoint, name, value)
        endpoint.updated_at = at
        endpoint.save(update_fields=[*values, "updated_at"])
        traits = _traits(endpoint, before=before, after=_audited_values(endpoint))
        audit.record(audit.Action.WEBHOOK_ENDPOINT_UPDATED, actor=actor, caller=caller, at=at, traits=traits)
        transaction.on_commit(subscriptions.cache.clear)
    return endpoint


def delete(endpoint_id: str, *, actor: audit.Administrator, caller: Caller, at: datetime) -> None:
    """Delete an endpoint with its deliveries. The cleanup removes the rows."""
    with transaction.atomic(durable=True):
        endpoint = _lock(endpoint_id)
        endpoint.deleted_at = endpoint.updated_at = at
        endpoint.save(update_fields=["deleted_at", "updated_at"])
        traits = _traits(endpoint, before=_audited_values(endpoint), after={})
        audit.record(audit.Action.WEBHOOK_ENDPOINT_DELETED, actor=actor, caller=caller, at=at, traits=traits)
        transaction.on_commit(subscriptions.cache.clear)


def rotate_secret(
    endpoint_id: str,
    *,
    grace: timedelta = DEFAULT_GRACE,
    secret: str | None = None,
    actor: audit.Administrator,
    caller: Caller,
    at: datetime,
) -> EndpointWithSecret:
    """Replace the secret; the former one signs too until `grace` has passed. Raises EndpointInvalid."""
    if not timedelta() <= grace <= MAX_GRACE:
        raise EndpointInvalid(GRACE_INVALID)
    new_secret = _check_secret(secret) if secret is not None else _generate_secret()
    with transaction.atomic(durable=True):
        endpoint = _lock(endpoint_id)
        endpoint.previous_secret = endpoint.secret if grace else None
        endpoint.previous_secret_until = at + grace if grace else None
        endpoint.secret = encryption.encrypt(new_secret, bound_to=endpoint.id, always=True)
        endpoint.updated_at = at
        endpoint.save(update_fields=["secret", "previous_secret", "previous_secret_until", "updated_at"])
        traits = _traits(endpoint, before={}, after={})
        audit.record(audit.Action.WEBHOOK_ENDPOINT_SECRET_ROTATED, actor=actor, caller=caller, at=at, traits=traits)
        transaction.on_commit(subscriptions.cache.clear)
    return EndpointWithSecret(endpoint=endpoint, secret=new_secret)


def parse_id(text: str) -> UUID:
    """The id in a path. Raises EndpointNotFound."""
    try:
        return UUID(text)
    except ValueError:
        raise EndpointNotFound from None


def known_event_types() -> list[str]:
    return [event_type.value for event_type in EventType]


def are_event_types(texts: Sequence[str]) -> bool:
    """True for a list of types, prefixes of them with `.*`, and `*`; not for an empty one."""
    known = set(known_event_types())
    prefixes = {f"{name.partition('.')[0]}.*" for name in known}
    return bool(texts) and set(texts) <= known | prefixes | {ALL_TYPES}


def _lock(endpoint_id: str) -> WebhookEndpoint:
    endpoints = WebhookEndpoint.objects.select_for_update(no_key=True)
    endpoint = endpoints.filter(id=parse_id(endpoint_id), deleted_at__isnull=True).first()
    if endpoint is None:
        raise EndpointNotFound
    return endpoint


def _checked(*, url: str | None, event_types: Sequence[str] | None, description: str | None) -> dict[str, Any]:
    """The values that are not None. Raises EndpointInvalid."""
    values: dict[str, Any] = {}
    if url is not None:
        _check_url(url)
        values["url"] = url
    if event_types is not None:
        if not are_event_types(event_types):
            raise EndpointInvalid("event_types must contain known event types")
        values["event_types"] = list(dict.fromkeys(event_types))
    if description is not None:
        if len(description) > MAX_DESCRIPTION_LENGTH:
            raise EndpointInvalid(f"description must be at most {MAX_DESCRIPTION_LENGTH} characters")
        values["description"] = description
    return values


def _check_url(url: str) -> None:
    allows_http = conf.current().webhooks.allow_private_networks
    schemes = ("https", "http") if allows_http else ("https",)
    parts = urls.split_plain(url)
    if parts is None or parts.scheme not in schemes or "#" in url or len(url) > _MAX_URL_LENGTH:
        raise EndpointInvalid(f"url must be an absolute {'http or https' if allows_http else 'https'} URL")


def _check_secret(secret: str) -> str:
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or len(key) not in _SECRET_SIZES:
        raise EndpointInvalid("invalid secret format")
    return secret


def _generate_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def _audited_values(endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "url": endpoint.url,
        "event_types": endpoint.event_types,
        "description": endpoint.description,
        "disabled": endpoint.disabled_at is not None,
    }


def _traits(endpoint: WebhookEndpoint, *, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    traits: dict[str, Any] = {"endpoint_id": str(endpoint.id)}
    # URLs of chat services contain credentials.
    if changes := audit.describe_changes(before, after, secret={"url"}):
        traits["changes"] = changes
    return traits
