"""The deadline that calls of one request share."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oauthproviders.base import deadline
from tests.conftest import ChangeConfig


@pytest.mark.parametrize(
    ("api", "seconds"),
    [
        ({"max_request_duration": timedelta(seconds=10), "internal_http_timeout": timedelta(seconds=10)}, 8),
        ({"max_request_duration": timedelta(seconds=10), "internal_http_timeout": timedelta(seconds=3)}, 3),
        ({"max_request_duration": timedelta(), "internal_http_timeout": timedelta(seconds=7)}, 7),
    ],
    ids=str,
)
def test_calls_in_a_block_share_the_timeout_of_one_call(
    auth_config: ChangeConfig, api: dict[str, timedelta], seconds: int
) -> None:
    auth_config(api=api)
    assert deadline.remaining() == timedelta(seconds=seconds)
    with deadline.shared():
        first = deadline.remaining()
        assert deadline.remaining() < first < timedelta(seconds=seconds)
    assert deadline.remaining() == timedelta(seconds=seconds)
