"""Settings and receivers for tests of hooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from authsvc import conf
from authsvc.conf.sections.hooks import Hook, HookSettings
from tests.fakes.http_peer import HttpPeer, in_json

SetHook = Callable[..., None]


@pytest.fixture
def set_hook(settings: Any) -> SetHook:
    """Enable a hook with settings; its timeout is long unless the test sets it."""

    def change(hook: Hook, **values: Any) -> None:
        config = conf.current()
        defaults: dict[str, Any] = {"enabled": True, "timeout": timedelta(seconds=30)}
        hooks = {**config.hooks, hook.name.lower(): HookSettings(**defaults | values)}
        settings.AUTH = dataclasses.replace(config, hooks=hooks)

    return change


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpPeer]:
    """A receiver of hooks on loopback, which accepts every call."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with HttpPeer() as running:
        running.respond(in_json({}))
        yield running
