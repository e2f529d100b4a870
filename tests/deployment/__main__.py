"""Runs scenarios and prints a table: `python -m tests.deployment [name…]`; all of them by default.

Needs Debian's packages postgresql, nginx, pgbouncer and libfaketime. The scenario `disk` needs root. A scenario that
cannot run is a problem, unless `--allow-skipped` permits it.
"""

from __future__ import annotations

import argparse
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable

import django
import pytest

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from _pytest.outcomes import OutcomeException  # noqa: E402

from tests.deployment import frozen_server, leader_work, scenarios, shared_state, throughput  # noqa: E402

_HEAD = ("scenario", "answered", "refused", "outage s", "recovery s", "longest s", "lost", "doubled mails")


def _check_shared_state() -> None:
    shared_state.check()
    print("shared_state: no problem")


def _check_leader_work() -> None:
    times = ", ".join(f"{work} {seconds:.1f} s" for work, seconds in leader_work.check().items())
    print(f"leader_work: no problem; taken over after: {times}")


def _check_frozen_server() -> None:
    print(f"frozen_server: no problem; its user can sign in elsewhere after {frozen_server.check():.0f} s")


def _measure_throughput() -> None:
    print(*throughput.table(throughput.measure()), sep="\n")


_FURTHER: dict[str, Callable[[], None]] = {
    "shared_state": _check_shared_state,
    "leader_work": _check_leader_work,
    "frozen_server": _check_frozen_server,
    "throughput": _measure_throughput,
}


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _refused(outcome: scenarios.Outcome) -> str:
    return ", ".join(f"{number} × {status or 'connection'}" for status, number in outcome.refused.items()) or "0"


def _row(outcome: scenarios.Outcome) -> str:
    times = (f"{seconds:.2f}" for seconds in (outcome.outage, outcome.recovery, outcome.longest))
    counts = (str(outcome.report.lost), str(outcome.report.doubled_mails))
    return _line((outcome.name, str(outcome.answered), _refused(outcome), *times, *counts))


def main() -> int:
    parser = argparse.ArgumentParser(description="Break parts of an installation under load.")
    parser.add_argument("names", nargs="*", choices=[*scenarios.ALL, *_FURTHER, []], metavar="scenario")
    parser.add_argument("--former", default="", help="commit or tag from which the scenario `upgrade` upgrades")
    parser.add_argument("--allow-skipped", action="store_true", help="succeed although a scenario cannot run here")
    # Ends the processes that run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = parser.parse_args()
    names = given.names or [*scenarios.ALL, *_FURTHER]
    started = scenarios.ALL | {"upgrade": functools.partial(scenarios.upgrade_from, given.former)}
    problems = 0
    if chosen := [name for name in names if name in scenarios.ALL]:
        print(_line(_HEAD), _line(("---",) * len(_HEAD)), sep="\n")
    for name in chosen:
        try:
            for outcome in started[name]():
                print(_row(outcome), flush=True)
                problems += len(outcome.problems)
                for problem in outcome.problems:
                    print(f"  {problem}", file=sys.stderr)
        except (RuntimeError, OutcomeException) as error:
            print(f"{name}: {error}", file=sys.stderr)
            problems += not (given.allow_skipped and isinstance(error, pytest.skip.Exception))
    for name in (name for name in names if name in _FURTHER):
        try:
            _FURTHER[name]()
        except (AssertionError, RuntimeError, OutcomeException) as error:
            traceback.print_exc()
            problems += not (given.allow_skipped and isinstance(error, pytest.skip.Exception))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
