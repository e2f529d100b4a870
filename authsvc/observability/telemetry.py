"""Starts and stops the export of metrics and traces; loads only the libraries that the settings require."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

import authsvc
from authsvc import conf
from authsvc.observability import metrics, otlp

FLUSH_SECONDS = 5.0
"""Longest wait for collectors when a process ends."""
_INSTALL = "pip install -r requirements.server.lock"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:[-.]?rc\.?(\d+))?")

_is_instrumented = False
_is_listening = False
_stop_functions: list[Callable[[], None]] = []
job_span: Callable[[str], AbstractContextManager[object]] = nullcontext
"""The span of one job; without effect while this process exports no traces."""
hook_span: Callable[[str], AbstractContextManager[object]] = nullcontext
"""The span of one call of a hook; without effect while this process exports no traces."""
logger = logging.getLogger(__name__)


def prepare() -> None:
    """Instrument the libraries and open the port for Prometheus.

    Must run before Django's handler loads its middleware and before serving processes are forked.
    """
    config = conf.current().telemetry
    if config.traces or config.metrics:
        conf.export_variables(config.variables)
    if config.traces:
        _attempt("tracing", _instrument)
    if config.metrics == "prometheus":
        _attempt("metrics listener", lambda: _listen(config))


def start_in_process(*, is_leader: Callable[[], bool]) -> None:
    """Export the metrics and traces of this process until it ends.

    `is_leader` is True in the one process that exports the metrics of the whole installation.
    """
    config = conf.current().telemetry
    if not config.debug:
        otlp.limit_warnings(is_leader=is_leader)
    if _is_instrumented:
        _attempt("tracing", lambda: _start_tracing(config))
    if config.metrics:
        _set_constants()
        _attempt("metrics", lambda: _start_metrics(config, is_leader))


def _instrument() -> None:
    global _is_instrumented
    import_module("authsvc.observability.tracing").instrument()
    _is_instrumented = True


def _listen(config: conf.Telemetry) -> None:
    global _is_listening
    import_module("authsvc.observability.prometheus").listen(config)
    _is_listening = True


def _start_tracing(config: conf.Telemetry) -> None:
    global job_span, hook_span
    tracing = import_module("authsvc.observability.tracing")
    _stop_functions.append(tracing.start(config))
    job_span, hook_span = tracing.job_span, tracing.hook_span


def _start_metrics(config: conf.Telemetry, is_leader: Callable[[], bool]) -> None:
    if _is_listening:
        import_module("authsvc.observability.prometheus").start(otlp.resource_attributes(config))
    elif config.metrics == "opentelemetry":
        _stop_functions.append(import_module("authsvc.observability.otlp_metrics").start(config, is_leader=is_leader))
    count = import_module("authsvc.observability.django_metrics").count_migrations
    threading.Thread(target=count, name="migration-metrics", daemon=True).start()


def _set_constants() -> None:
    metrics.RUNNING.set(1)
    version = _VERSION.match(authsvc.__version__)
    numbers = version.groups("0") if version else ("0", "0", "0", "0")
    for part, number in zip(("major", "minor", "patch", "rc"), numbers, strict=True):
        metrics.VERSION[part].set(int(number))


def _attempt(part: str, start: Callable[[], object]) -> None:
    """Run `start`. A failure is logged and the part left out, so that the service serves without it."""
    try:
        start()
    except ModuleNotFoundError as error:
        logger.error("unable to start %s", part, extra={"error": f"{error.name} is missing: {_INSTALL}"})
    except ValueError as error:
        logger.error("%s", error)
    except OSError as error:
        logger.error("unable to start %s", part, extra={"error": str(error)})
    except Exception:
        # Libraries of an incompatible version.
        logger.exception("unable to start %s", part)


def stop_in_process() -> None:
    """Export the rest; waits at most `FLUSH_SECONDS` for collectors."""
    flushes = [threading.Thread(target=stop, name="telemetry-flush", daemon=True) for stop in _stop_functions]
    _stop_functions.clear()
    deadline = time.monotonic() + FLUSH_SECONDS
    for thread in flushes:
        thread.start()
    for thread in flushes:
        thread.join(max(0.0, deadline - time.monotonic()))


# Functions of `atexit` are not called in processes that multiprocessing has forked. The last one registered is called
# first: `authsvc.jobs` imports this module before it registers its own, so the last job ends before the last export.
threading._register_atexit(stop_in_process)  # type: ignore[attr-defined]  # not in the stubs
