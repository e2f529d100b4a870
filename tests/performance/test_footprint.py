"""What a server of two processes takes of memory at rest."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import requests

from tests.live import servers
from tests.live.robustness import conftest as robust
from tests.performance import footprint

MOST_MIB = 180
"""For all processes together; at the time of writing it is 112, and 135 when many have signed in before."""


@pytest.mark.skipif(sys.platform != "linux", reason="proportional memory is told by Linux alone")
@pytest.mark.parametrize("http_server", ["granian", "gunicorn"])
def test_a_server_at_rest_takes_no_more_than_it_may(http_server: str, serve: Callable[..., servers.LiveServer]) -> None:
    running = serve(http_server=http_server)
    robust.all_serving_processes(running)
    for path in ("/settings", "/.well-known/jwks.json", "/operator/"):
        assert requests.get(running.url + path, timeout=30).ok
    assert footprint.total(running) <= MOST_MIB * footprint.MIB
