"""Python hooks of tests."""

from __future__ import annotations

import threading
from typing import Any

from django.db import connection

from hooks.api import HookEvent, HookRejection

released = threading.Event()
ended = threading.Event()
events: list[HookEvent[Any]] = []


def accept(event: HookEvent[Any]) -> None:
    events.append(event)


def respond(event: HookEvent[Any]) -> dict[str, Any]:
    payload = dict(event.payload)
    payload.clear()  # the copy of the function
    return {"name": event.name}


def reject(event: HookEvent[Any]) -> None:
    raise HookRejection("not today", http_code=403)


def fail(event: HookEvent[Any]) -> None:
    raise ValueError("secret-of-the-hook")


def leave(event: HookEvent[Any]) -> None:
    raise SystemExit("a library calls sys.exit")


def hang(event: HookEvent[Any]) -> None:
    released.wait(60)
    ended.set()


def use_database(event: HookEvent[Any]) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return {"pid": cursor.fetchone()[0]}


def answer_badly(event: HookEvent[Any]) -> object:
    return object()


async def coroutine(event: HookEvent[Any]) -> None: ...


def without_argument() -> None: ...


def return_claims(event: HookEvent[Any]) -> dict[str, Any]:
    events.append(event)
    return {"claims": event.payload["claims"]}
