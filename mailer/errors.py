"""What can go wrong between us and a gateway, and what cannot be tried again."""

from __future__ import annotations

from authsvc.errors import UnprocessableInput


class NotDelivered(Exception):
    """A gateway could not be reached or did not take the message; the text says why, in its words if it had any."""

    def __init__(self, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.permanent = permanent
        """Whether the same message would be refused again."""


class NotFailed(UnprocessableInput):
    message = "The message has not failed: it waits for its next attempt, or is out by now"


class MessageExpired(UnprocessableInput):
    message = "The code in this message has expired. Send a new one from the user's page"


class MessageSealed(UnprocessableInput):
    message = "This message was sealed under another JWT_SECRET and can no longer be opened"
