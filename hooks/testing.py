"""Runs a Python hook in a test, under the rules of the service. A public name, as those of `hooks.api`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from authsvc.conf.sections.hooks import Hook
from hooks.api import HookEvent
from hooks.invocation import invocation, python_function
from hooks.invocation.invocation import NO_RESPONSE


def run(
    function: Callable[[HookEvent[Any]], Any],
    payload: Mapping[str, Any],
    *,
    hook: Hook,
    timeout: timedelta = timedelta(seconds=2),
) -> Any:
    """The response of `function` as JSON would transport it; None for no response.

    Runs in a thread of its own, with a copy of the payload. Raises HookRejection for a rejection, and HookFailed for a
    function that raises another exception, exceeds its time or returns something other than a JSON object.
    """
    response = python_function.call(
        function,
        f"python:{function.__module__}:{function.__qualname__}",
        name=str(hook),
        payload=invocation.as_json(payload),
        deadline=time.monotonic() + timeout.total_seconds(),
        timeout=timeout,
        max_abandoned=1,
    )
    response = NO_RESPONSE if response is None else invocation.as_json(response)
    invocation.check_error(response)
    return None if response is NO_RESPONSE else response
