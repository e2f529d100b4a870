"""Errors of retrying messages in the console."""

from __future__ import annotations

from authsvc.errors import UnprocessableInput


class NotFailed(UnprocessableInput):
    message = "The message has not failed: it waits for its next attempt, or has been delivered"


class MessageExpired(UnprocessableInput):
    message = "The code in this message has expired. Send a new one from the user's page"


class MessageUndecryptable(UnprocessableInput):
    message = "This message was encrypted with another JWT_SECRET and cannot be decrypted"
