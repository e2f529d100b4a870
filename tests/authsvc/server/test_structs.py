"""msgspec inspects structs before threads decode them."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Runs in a separate process, because a failure crashes it: threads decode 300 structs for the first time at once.
_READERS = """
import sys, threading, msgspec
from authsvc.server import structs
sys.setswitchinterval(1e-6)
made = []
for number in range(300):
    inner = msgspec.defstruct(f"Inner{number}", [(f"a{index}", str | None, None) for index in range(20)])
    made.append(msgspec.defstruct(f"Outer{number}", [("inner", inner | None, None), ("text", str | None, None)]))
structs.inspect_all()
for struct in made:
    together = threading.Barrier(6)
    def read():
        together.wait()
        msgspec.json.decode(b'{"inner": {"a1": "x"}}', type=struct)
    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_read_a_struct_for_the_first_time_survive() -> None:
    done = subprocess.run([sys.executable, "-c", _READERS], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


_LOOK = """
import threading
from authsvc.server import processes, structs
def look():
    print("looked beside", threading.active_count() - 1, "threads")
    raise SystemExit
structs.inspect_all = look
def begin(*_):
    raise SystemExit("threads first")
threading.Thread.start = begin
"""
# A supervisor loads the application this way, without starting threads.
_LOADING = """
processes.preload()
import authsvc.wsgi
"""
_WORKER = """
from django.core import management
management.execute_from_command_line(["manage.py", "worker"])
"""


@pytest.mark.parametrize("start", [pytest.param(_LOADING, id="serving"), pytest.param(_WORKER, id="worker")])
def test_it_is_done_before_a_process_starts_threads(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOOK + start], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "looked beside 0 threads\n", done.stderr
