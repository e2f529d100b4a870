"""Telemetry of one serving process: started once it serves, flushed at its exit, never a reason not to serve."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Protocol, cast

from authsvc import conf, jobs
from authsvc.observability import metrics
from authsvc.observability.telemetry import about, folder, queue

FLUSH_SECONDS = 5.0
"""What the exit of a process waits for collectors at most."""

Stop = Callable[[], None]

_stops: dict[str, Stop] = {}
logger = logging.getLogger(__name__)


class _Part(Protocol):
    def start(self, config: conf.Telemetry) -> Stop: ...


def start_in_process() -> None:
    """Start what the settings ask for, unless it runs; what cannot be started is logged and left out."""
    config = conf.current().telemetry
    wanted = {"tracing": "tracing" if config.traces else "", "metrics": _EXPORTERS.get(config.metrics, "")}
    missing = [name for name, module in wanted.items() if module and name not in _stops]
    if not missing:
        return
    folder.prepare(config)
    conf.export_variables(config.variables)
    metrics.gauges[:] = [about.constants, queue.read]
    for name in missing:
        try:
            part = cast(_Part, import_module(f"{__package__}.{wanted[name]}"))
            _stops[name] = part.start(config)
        except ModuleNotFoundError as error:
            what = f"{error.name} is missing: pip install -r requirements.server.lock"
            logger.error("unable to start %s", name, extra={"error": what})
        except ValueError as error:
            logger.error("%s", error)
        except OSError as error:
            logger.error("unable to start %s", name, extra={"error": str(error)})
        except Exception:
            # A version of the libraries that has no more what is used of them.
            logger.exception("unable to start %s", name)
    # What has just been loaded stays for good, and is so much that looking through it again and again would show.
    gc.collect()
    gc.freeze()


_EXPORTERS = {"prometheus": "prometheus", "opentelemetry": "push"}


def stop_in_process() -> None:
    """Send what has not been sent yet, after the last job; waits `FLUSH_SECONDS` for the collectors, not longer."""
    if not _stops:
        return
    # What a job in hand says of itself belongs to it. This function is called before the one of the jobs.
    jobs.stop_in_process()
    metrics.keep_in(None)
    flushing = [threading.Thread(target=stop, name="telemetry-flush", daemon=True) for stop in _stops.values()]
    _stops.clear()
    deadline = time.monotonic() + FLUSH_SECONDS
    for thread in flushing:
        thread.start()
    for thread in flushing:
        thread.join(max(0.0, deadline - time.monotonic()))


# As for the worker of the jobs: exit functions of `atexit` are not called in processes made by multiprocessing.
threading._register_atexit(stop_in_process)  # type: ignore[attr-defined]  # not in the stubs
