"""What a presented refresh token is worth: every combination of distance, age and settings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from authsvc.conf import Refresh
from tokens.sessions.refresh import RotationDecision, decide_rotation

SECOND = timedelta(seconds=1)
INTERVAL = 10 * SECOND
ROTATING = Refresh(rotation_enabled=True, reuse_interval=INTERVAL)
RESTING = Refresh(rotation_enabled=False, reuse_interval=INTERVAL)
LENIENT = Refresh(rotation_enabled=True, reuse_interval=INTERVAL, allow_reuse=True)
LENIENT_RESTING = Refresh(rotation_enabled=False, reuse_interval=INTERVAL, allow_reuse=True)
STRICT = Refresh(rotation_enabled=True, reuse_interval=timedelta(0))

EVERY = [ROTATING, RESTING, LENIENT, LENIENT_RESTING, STRICT]


@pytest.mark.parametrize("refresh", EVERY)
@pytest.mark.parametrize("age", [timedelta(0), INTERVAL, 1000 * INTERVAL])
def test_the_newest_token_is_exchanged_for_the_next(refresh: Refresh, age: timedelta) -> None:
    assert decide_rotation(behind=0, age=age, refresh=refresh) is RotationDecision.ROTATE


@pytest.mark.parametrize("refresh", EVERY)
@pytest.mark.parametrize("behind", [-1, -(2**63)])
def test_a_token_that_was_never_reached_is_told_apart(refresh: Refresh, behind: int) -> None:
    assert decide_rotation(behind=behind, age=timedelta(0), refresh=refresh) is RotationDecision.AHEAD


@pytest.mark.parametrize("refresh", [LENIENT, LENIENT_RESTING])
@pytest.mark.parametrize("behind", [1, 2, 1000])
@pytest.mark.parametrize("age", [timedelta(0), 1000 * INTERVAL])
def test_where_reuse_is_allowed_every_older_token_gets_the_newest(
    refresh: Refresh, behind: int, age: timedelta
) -> None:
    assert decide_rotation(behind=behind, age=age, refresh=refresh) is RotationDecision.REPEAT


@pytest.mark.parametrize(
    ("refresh", "behind", "age", "verdict"),
    [
        (ROTATING, 1, timedelta(0), RotationDecision.REPEAT),
        (ROTATING, 1, INTERVAL, RotationDecision.REPEAT),
        (ROTATING, 1, INTERVAL + SECOND, RotationDecision.REUSED),
        (ROTATING, 2, timedelta(0), RotationDecision.REUSED),
        (ROTATING, 1000, timedelta(0), RotationDecision.REUSED),
        (STRICT, 1, timedelta(0), RotationDecision.REPEAT),
        (STRICT, 1, SECOND / 1000, RotationDecision.REUSED),
        # A winner's clock may be ahead of the loser's by the time the loser waited.
        (ROTATING, 1, -SECOND, RotationDecision.REPEAT),
        (RESTING, 1, 1000 * INTERVAL, RotationDecision.REPEAT),
        (RESTING, 2, INTERVAL - SECOND, RotationDecision.REPEAT),
        (RESTING, 2, INTERVAL, RotationDecision.REFUSED),
        (RESTING, 1000, 1000 * INTERVAL, RotationDecision.REFUSED),
    ],
)
def test_an_older_token(refresh: Refresh, behind: int, age: timedelta, verdict: RotationDecision) -> None:
    assert decide_rotation(behind=behind, age=age, refresh=refresh) is verdict
