"""Checks the memory of an idle server with two processes."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import requests

from tests.live import servers
from tests.live.processes import all_serving_processes
from tests.performance import footprint

MAX_MIB = 180
"""Limit for all processes together; measured: 112, and 135 after many sign-ins."""


@pytest.mark.skipif(sys.platform != "linux", reason="proportional set size is available only on Linux")
@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_idle_server_stays_within_memory_limit(http_server: str, serve: Callable[..., servers.LiveServer]) -> None:
    running = serve(http_server=http_server, is_new_interpreter=True)
    all_serving_processes(running)
    for path in ("/settings", "/.well-known/jwks.json", "/operator/"):
        assert requests.get(running.url + path, timeout=30).ok
    assert footprint.total(running) <= MAX_MIB * footprint.MIB
