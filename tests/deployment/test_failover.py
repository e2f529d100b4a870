"""One failover under load; `make test-deployment` runs every scenario."""

from __future__ import annotations

import dataclasses

from tests.deployment import scenarios


def test_failover_loses_nothing_and_needs_no_restart() -> None:
    scenario = dataclasses.replace(scenarios.FAILOVER, responses=40)
    [outcome] = scenarios.failover(number=2, scenarios=(scenario,), worker_number=0)

    assert outcome.problems == []
    assert outcome.refused
