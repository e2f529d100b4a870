"""Errors of delivery, and of retrying messages in the console."""

from __future__ import annotations

from authsvc.errors import UnprocessableInput


class DeliveryFailed(Exception):
    """A gateway is unreachable or rejected the message. The text is the gateway's, if it sent one."""

    def __init__(self, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.permanent = permanent
        """True if the gateway would reject the same message again."""


class NotFailed(UnprocessableInput):
    message = "The message has not failed: it waits for its next attempt, or has been delivered"


class MessageExpired(UnprocessableInput):
    message = "The code in this message has expired. Send a new one from the user's page"


class MessageUndecryptable(UnprocessableInput):
    message = "This message was encrypted with another JWT_SECRET and cannot be decrypted"
