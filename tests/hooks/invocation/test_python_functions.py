"""Hooks that are Python functions."""

from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta

import pytest
from django.core import checks
from django.db import connection

from authsvc.conf.sections.hooks import Hook
from hooks.errors import HookErrored, HookRejection, HookTimedOut, InvalidHookResponse
from hooks.invocation import python_function
from hooks.invocation.invocation import NO_RESPONSE, invoke
from tests.conftest import ChangeConfig
from tests.hooks.conftest import SetHook
from tests.hooks.invocation import functions

pytestmark = pytest.mark.django_db

HOOK = Hook.AFTER_USER_CREATED
PAYLOAD = {"user": {"email": "secret@example.com"}}


def uri(name: str) -> str:
    return f"python:tests.hooks.invocation.functions:{name}"


def test_responses(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("respond"))
    assert invoke(HOOK, PAYLOAD) == {"name": "after-user-created"}
    set_hook(HOOK, uri=uri("accept"))
    assert invoke(HOOK, PAYLOAD, address="203.0.113.7") is NO_RESPONSE
    event = functions.events.pop()
    assert event.payload["user"] == PAYLOAD["user"]
    assert event.payload["metadata"]["ip_address"] == "203.0.113.7"


def test_a_rejection(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("reject"))
    with pytest.raises(HookRejection) as caught:
        invoke(HOOK, PAYLOAD)
    assert (caught.value.status, caught.value.error_code, caught.value.message) == (403, "unknown", "not today")


def test_an_exception_is_logged_without_the_payload(set_hook: SetHook, caplog: pytest.LogCaptureFixture) -> None:
    set_hook(HOOK, uri=uri("fail"))
    with caplog.at_level(logging.DEBUG), pytest.raises(HookErrored) as caught:
        invoke(HOOK, PAYLOAD)
    assert caught.value.message == f"Error running hook URI: {uri('fail')}"
    assert "ValueError" in caplog.text
    assert "secret@example.com" not in json.dumps([record.__dict__ for record in caplog.records], default=str)


def test_a_function_that_exits_has_failed(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("leave"))
    with pytest.raises(HookErrored):
        invoke(HOOK, PAYLOAD)


def test_a_response_that_is_no_json(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("answer_badly"))
    with pytest.raises(InvalidHookResponse):
        invoke(HOOK, PAYLOAD)


def test_threads_that_hang_are_limited(
    set_hook: SetHook, auth_config: ChangeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    auth_config(hook_calls={"max_concurrency": 1})
    set_hook(HOOK, uri=uri("hang"), timeout=timedelta(milliseconds=100))
    functions.released.clear()
    functions.ended.clear()
    try:
        with pytest.raises(HookTimedOut) as caught:
            invoke(HOOK, PAYLOAD)
        assert caught.value.message == "Failed to reach hook within maximum time of 0.100000 seconds"
        set_hook(HOOK, uri=uri("accept"), timeout=timedelta(hours=1))
        with pytest.raises(HookTimedOut):  # at once
            invoke(HOOK, PAYLOAD)
        assert "hook not called: earlier calls have not returned" in caplog.text
    finally:
        functions.released.set()
    assert functions.ended.wait(60)


def test_the_function_has_a_connection_of_its_own(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("use_database"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert invoke(HOOK, PAYLOAD)["pid"] != cursor.fetchone()[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tests.hooks.no_module:f", "ModuleNotFoundError"),
        ("tests.hooks.invocation.functions:missing", "AttributeError"),
        ("tests.hooks.invocation.functions:events", "is not callable"),
        ("tests.hooks.invocation.functions:coroutine", "is a coroutine function"),
        ("tests.hooks.invocation.functions:without_argument", "must accept one positional argument"),
    ],
)
def test_functions_that_prevent_the_start(set_hook: SetHook, name: str, reason: str) -> None:
    set_hook(HOOK, uri=f"python:{name}", enabled=False)
    [problem] = [error for error in checks.run_checks() if error.id == "hooks.E001"]
    assert problem.msg.startswith("conf: AUTH_HOOK_AFTER_USER_CREATED_URI: ")
    assert reason in problem.msg


def test_a_function_that_can_be_called(set_hook: SetHook) -> None:
    set_hook(HOOK, uri=uri("accept"))
    assert not [error for error in checks.run_checks() if error.id == "hooks.E001"]
    assert python_function.resolve(uri("accept")) is functions.accept


def test_a_thread_that_cannot_start(set_hook: SetHook, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    set_hook(HOOK, uri=uri("accept"))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(HookErrored):
        invoke(HOOK, PAYLOAD)
