"""The columns of a user that hold requested changes and the times of sent messages."""

from __future__ import annotations

from typing import Any

_MESSAGES = ("confirmation", "recovery", "email_change", "phone_change", "reauthentication")


def cleared_columns() -> dict[str, Any]:
    """Column values that withdraw every pending change of a user, for use when the password or the owner changes.

    Otherwise a client that knows the address could resend the pending change to the user who requested it.
    """
    return {
        "email_change": "",
        "phone_change": "",
        "email_change_confirm_status": 0,
        **{f"{message}_sent_at": None for message in _MESSAGES},
    }
