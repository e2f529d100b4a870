"""Calls a hook that is a Python function, in a thread, so that the caller can stop waiting for it."""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextvars import copy_context
from datetime import timedelta
from typing import Any

from django.db import connections

from authsvc.observability import metrics
from hooks import errors
from hooks.api import HookEvent

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_abandoned = 0


class InvalidFunction(Exception):
    """The name denotes no function that can be a hook; the text is the reason."""


def resolve(uri: str) -> Callable[[HookEvent[Any]], Any]:
    """The function that `python:<module>:<callable>` names. Raises InvalidFunction."""
    module, _, name = uri.partition(":")[2].partition(":")
    try:
        function: Any = importlib.import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except Exception as error:
        # Importing runs code of the operator, which may raise anything.
        raise InvalidFunction(f"{type(error).__name__}: {error}") from error
    if not callable(function):
        raise InvalidFunction(f"{name} is not callable")
    if inspect.iscoroutinefunction(function):
        raise InvalidFunction(f"{name} is a coroutine function")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise InvalidFunction(f"{name} must accept one positional argument") from None
    except ValueError:
        pass  # a built-in without a signature
    return function  # type: ignore[no-any-return]  # found by its name


def call(
    function: Callable[[HookEvent[Any]], Any],
    uri: str,
    *,
    name: str,
    payload: Mapping[str, Any],
    deadline: float,
    timeout: timedelta,
    max_abandoned: int,
) -> Any:
    """The response of the function; None for no response. Raises HookRejection and HookFailed.

    Threads cannot be stopped: the caller goes on at the deadline (monotonic clock), and the thread until its function
    returns. While `max_abandoned` threads of this process have passed their deadline, a call fails at once.
    """
    with _lock:
        has_room = _abandoned < max_abandoned
    if not has_room:
        fields = {"event": "hook.abandoned", "hook": name, "calls": max_abandoned}
        logger.error("hook not called: earlier calls have not returned", extra=fields)
        raise errors.HookTimedOut.after(timeout)
    event = HookEvent(name=name, payload=copy.deepcopy(dict(payload)), deadline=deadline)
    result: Future[Any] = Future()
    thread = threading.Thread(target=copy_context().run, args=(_run, function, event, result), name="hook", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise errors.HookErrored(uri) from error
    finished, _ = wait([result], timeout=max(0.0, deadline - time.monotonic()))
    if not finished:
        _count_abandoned(result)
        raise errors.HookTimedOut.after(timeout)
    try:
        return result.result()
    except errors.HookRejection:
        raise
    except BaseException as error:
        # SystemExit too: it would end this thread without a response.
        raise errors.HookErrored(uri) from error


def _run(function: Callable[[HookEvent[Any]], Any], event: HookEvent[Any], result: Future[Any]) -> None:
    """Run in the thread, which has its own database connection."""
    try:
        response = function(event)
    except BaseException as error:
        if not isinstance(error, errors.HookRejection):
            logger.exception("hook raised an exception", extra={"event": "hook.exception"})
        result.set_exception(error)
    else:
        result.set_result(response)
    finally:
        connections.close_all()


def _count_abandoned(result: Future[Any]) -> None:
    _add_abandoned(1)
    result.add_done_callback(lambda _: _add_abandoned(-1))


def _add_abandoned(number: int) -> None:
    global _abandoned
    with _lock:
        _abandoned += number
        metrics.HOOK_ABANDONED_THREADS.set(_abandoned)
