"""Every scenario and the measurement of throughput: `make test-deployment`. `make test` does not collect this file."""

from __future__ import annotations

import pytest

from tests.deployment import frozen_server, leader_work, scenarios, shared_state, throughput

pytestmark = pytest.mark.timeout(1800)

GROWTH = 1.15
"""CPU times vary by some percent between measurements."""


@pytest.mark.parametrize("name", scenarios.ALL)
def test_fault_loses_nothing_and_refuses_as_documented(name: str) -> None:
    try:
        outcomes = list(scenarios.ALL[name]())
    except pytest.skip.Exception as reason:
        pytest.fail(f"not run: {reason}")

    assert outcomes
    assert [f"{outcome.name}: {problem}" for outcome in outcomes for problem in outcome.problems] == []


def test_six_servers_act_as_one() -> None:
    shared_state.check()


def test_one_of_six_servers_does_the_work_of_the_installation() -> None:
    leader_work.check()


def test_a_frozen_server_stops_no_other_server() -> None:
    assert frozen_server.check() < frozen_server.RELEASE_SECONDS


def test_cpu_time_per_request_does_not_grow_with_servers() -> None:
    first, *others = throughput.measure()

    assert others
    for measured in others:
        assert measured.server_milliseconds < GROWTH * first.server_milliseconds, throughput.table([first, *others])
        assert measured.database_milliseconds < GROWTH * first.database_milliseconds, throughput.table([first, *others])
