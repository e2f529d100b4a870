"""Settings of the message hooks, with a receiver."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from responses import RequestsMock

from authsvc.conf.sections.hooks import Hook
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import MockedServer, in_json
from tests.hooks.conftest import SetHook

URL = "https://hooks.example.com"


class UseMessageHook(Protocol):
    def __call__(self, hook: Hook, *, delivery: str = "queued", **settings: Any) -> MockedServer: ...


@pytest.fixture
def use_message_hook(mocked_requests: RequestsMock, set_hook: SetHook, auth_config: ChangeConfig) -> UseMessageHook:
    """`use_message_hook(Hook.SEND_EMAIL, on_failure="open")` enables a hook and returns its receiver, which accepts."""

    def use(hook: Hook, *, delivery: str = "queued", **settings: Any) -> MockedServer:
        auth_config(hook_calls={f"{hook.name.lower()}_delivery": delivery})
        set_hook(hook, uri=f"{URL}/{hook}", **settings)
        receiver = MockedServer(mocked_requests, url=f"{URL}/{hook}")
        receiver.respond(in_json({}))
        return receiver

    return use
