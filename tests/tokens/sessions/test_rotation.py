"""Rotation decision: every combination of counter distance, age and settings."""

from __future__ import annotations

from datetime import timedelta

import pytest

from authsvc.conf import Refresh
from tokens.sessions.refresh import RotationDecision, decide_rotation

SECOND = timedelta(seconds=1)
INTERVAL = 10 * SECOND
ROTATION = Refresh(rotation_enabled=True, reuse_interval=INTERVAL)
NO_ROTATION = Refresh(rotation_enabled=False, reuse_interval=INTERVAL)
REUSE_ALLOWED = Refresh(rotation_enabled=True, reuse_interval=INTERVAL, allow_reuse=True)
REUSE_ALLOWED_WITHOUT_ROTATION = Refresh(rotation_enabled=False, reuse_interval=INTERVAL, allow_reuse=True)
NO_REUSE_INTERVAL = Refresh(rotation_enabled=True, reuse_interval=timedelta(0))

ALL_SETTINGS = [ROTATION, NO_ROTATION, REUSE_ALLOWED, REUSE_ALLOWED_WITHOUT_ROTATION, NO_REUSE_INTERVAL]


@pytest.mark.parametrize("refresh", ALL_SETTINGS)
@pytest.mark.parametrize("age", [timedelta(0), INTERVAL, 1000 * INTERVAL])
def test_newest_token_rotates(refresh: Refresh, age: timedelta) -> None:
    assert decide_rotation(behind=0, age=age, refresh=refresh) is RotationDecision.ROTATE


@pytest.mark.parametrize("refresh", ALL_SETTINGS)
@pytest.mark.parametrize("behind", [-1, -(2**63)])
def test_token_ahead_of_the_session_is_recognized(refresh: Refresh, behind: int) -> None:
    assert decide_rotation(behind=behind, age=timedelta(0), refresh=refresh) is RotationDecision.AHEAD


@pytest.mark.parametrize("refresh", [REUSE_ALLOWED, REUSE_ALLOWED_WITHOUT_ROTATION])
@pytest.mark.parametrize("behind", [1, 2, 1000])
@pytest.mark.parametrize("age", [timedelta(0), 1000 * INTERVAL])
def test_older_token_repeats_newest_token_with_reuse_allowed(refresh: Refresh, behind: int, age: timedelta) -> None:
    assert decide_rotation(behind=behind, age=age, refresh=refresh) is RotationDecision.REPEAT


@pytest.mark.parametrize(
    ("refresh", "behind", "age", "expected"),
    [
        (ROTATION, 1, timedelta(0), RotationDecision.REPEAT),
        (ROTATION, 1, INTERVAL, RotationDecision.REPEAT),
        (ROTATION, 1, INTERVAL + SECOND, RotationDecision.REUSED),
        (ROTATION, 2, timedelta(0), RotationDecision.REUSED),
        (ROTATION, 1000, timedelta(0), RotationDecision.REUSED),
        (NO_REUSE_INTERVAL, 1, timedelta(0), RotationDecision.REPEAT),
        (NO_REUSE_INTERVAL, 1, SECOND / 1000, RotationDecision.REUSED),
        # The time of the rotation may be later than `at` of a request that waited for it.
        (ROTATION, 1, -SECOND, RotationDecision.REPEAT),
        (NO_REUSE_INTERVAL, 1, -SECOND, RotationDecision.REPEAT),
        # The clock of the server that has rotated is an hour ahead.
        (ROTATION, 1, -3600 * SECOND, RotationDecision.REUSED),
        (NO_ROTATION, 1, 1000 * INTERVAL, RotationDecision.REPEAT),
        (NO_ROTATION, 2, INTERVAL - SECOND, RotationDecision.REPEAT),
        (NO_ROTATION, 2, INTERVAL, RotationDecision.REJECTED),
        (NO_ROTATION, 1000, 1000 * INTERVAL, RotationDecision.REJECTED),
    ],
)
def test_decision_for_older_token(refresh: Refresh, behind: int, age: timedelta, expected: RotationDecision) -> None:
    assert decide_rotation(behind=behind, age=age, refresh=refresh) is expected
