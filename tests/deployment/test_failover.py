"""One failover under load; `make test-deployment` runs every scenario."""

from __future__ import annotations

from tests.deployment import scenarios


def test_failover_loses_nothing_and_needs_no_restart() -> None:
    [outcome] = scenarios.failover(number=2, scenarios=(scenarios.FAILOVER,), has_worker=False)

    assert outcome.findings.problems == []
    assert outcome.refused
    assert set(outcome.refused) <= {500, 503}
