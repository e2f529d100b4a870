"""Calls a hook and interprets its response."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID, uuid4

import orjson

from authsvc import conf
from authsvc.conf.sections.hooks import Hook
from authsvc.observability import metrics, telemetry
from hooks import errors, settings
from hooks.errors import HookFailed, HookRejection
from hooks.invocation import concurrency, database_function, http, python_function

T = TypeVar("T")

logger = logging.getLogger(__name__)


class NoResponse(Enum):
    NO_RESPONSE = "no response"


NO_RESPONSE = NoResponse.NO_RESPONSE
"""The hook returned status 204, NULL or None."""


def is_enabled(hook: Hook) -> bool:
    return settings.get(hook).enabled


def invoke(
    hook: Hook,
    payload: Mapping[str, Any],
    *,
    read: Callable[[Any], T] = lambda response: response,
    address: str = "",
    invocation_id: UUID | None = None,
) -> T:
    """Call an enabled hook with `metadata` and `payload`; `address` is the client IP address, empty if unknown.

    Returns `read(response)`; the response is a JSON value without an `error`, or NO_RESPONSE. `read` raises HookFailed
    for an unusable response. `invocation_id` identifies repeated calls for the same message. Raises HookRejection if
    the hook refuses the request, HookFailed if it cannot be asked or understood, and ServiceBusy. Outside of
    transactions the request has no slot during the call.
    """
    configuration = settings.get(hook)
    message_id = str(invocation_id or uuid4())
    started = time.monotonic()
    outcome, problem = "failed", ""
    try:
        with telemetry.hook_span(str(hook)), concurrency.call(hook) as deadline:
            response = _call(hook, {"metadata": _metadata(hook, message_id, address), **payload}, message_id, deadline)
        check_error(response)
        result = read(response)
        outcome = "ok"
        return result
    except HookRejection:
        outcome = "rejected"
        raise
    except HookFailed as error:
        problem = error.message
        if configuration.on_failure == "open":
            outcome = "failed_open"
        raise
    finally:
        seconds = time.monotonic() - started
        metrics.HOOK_SECONDS.labels(str(hook), configuration.transport, outcome).observe(seconds)
        is_ok = outcome == "ok"
        fields = {"action": "run_hook", "hook": configuration.uri, "success": is_ok, "duration": int(seconds * 1e6)}
        if problem:  # texts of the service; that of a refusal is the hook's
            fields["error"] = problem
        message = "Hook ran successfully" if is_ok else "Hook errored out"
        logger.log(logging.INFO if is_ok else logging.WARNING, message, extra=fields)


def tolerates(hook: Hook, error: HookFailed) -> bool:
    """True if the request goes on although the hook failed. Logs it."""
    if settings.get(hook).on_failure != "open":
        return False
    fields = {"event": "hook.failed_open", "hook": str(hook), "cause": type(error).__name__}
    logger.error("hook failed open", extra=fields)
    return True


def _metadata(hook: Hook, message_id: str, address: str) -> dict[str, str]:
    metadata = {
        "uuid": message_id,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "name": str(hook),
    }
    return metadata | {"ip_address": address} if address else metadata


def _call(hook: Hook, payload: Mapping[str, Any], message_id: str, deadline: float) -> Any:
    """Call the hook by its transport; returns its JSON value, or NO_RESPONSE. Raises as `invoke`."""
    configuration = settings.get(hook)
    uri, timeout = configuration.uri, configuration.time_limit
    if configuration.transport == "python":
        response = python_function.call(
            python_function.resolve(uri),
            uri,
            name=str(hook),
            payload=orjson.loads(_encode(payload)),
            deadline=deadline,
            timeout=timeout,
            max_abandoned=conf.current().hook_calls.max_concurrency,
        )
        return NO_RESPONSE if response is None else as_json(response)
    body = _encode(payload)
    text: bytes | str | None
    if configuration.transport == "pg-functions":
        text = database_function.call(
            uri, configuration.function, payload=body.decode(), deadline=deadline, timeout=timeout
        )
    else:
        text = http.call(
            uri, body=body, message_id=message_id, secrets=configuration.secrets, deadline=deadline, timeout=timeout
        )
    if text is None:
        return NO_RESPONSE
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise errors.InvalidHookResponse from None


def _encode(payload: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(payload)
    except (orjson.JSONEncodeError, RecursionError):
        raise HookFailed("Error marshaling JSON input.") from None


def as_json(response: Any) -> Any:
    """The response of a Python function as JSON would transport it. Raises InvalidHookResponse."""
    try:
        return orjson.loads(orjson.dumps(response))
    except (orjson.JSONEncodeError, RecursionError):
        raise errors.InvalidHookResponse from None


def check_error(response: Any) -> None:
    """Raises HookRejection for a response with an `error`, and InvalidHookResponse for one of another shape."""
    if response is NO_RESPONSE or response is None:
        return
    if not isinstance(response, dict):
        raise errors.InvalidHookResponse
    error = response.get("error")
    if error is None:
        return
    if not isinstance(error, dict):
        raise errors.InvalidHookResponse
    message, status = error.get("message") or "", error.get("http_code") or 0
    if not isinstance(message, str) or not isinstance(status, int) or isinstance(status, bool):
        raise errors.InvalidHookResponse
    if message:
        raise HookRejection(message, http_code=status)
