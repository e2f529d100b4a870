"""Checks of responses and messages that tests of several packages share."""

from __future__ import annotations

from typing import Any

from tests.conftest import ApiResponse, Mailbox, read_success


def assert_accepted(response: ApiResponse) -> None:
    assert (response.status_code, response.json()) == (200, {})


def read_session(response: ApiResponse) -> dict[str, Any]:
    session = read_success(response)
    assert "type" not in session
    return session


def read_code(mailbox: Mailbox) -> str:
    """The code of the last text message."""
    code: str = mailbox.sms[-1].variables["Code"]
    return code
