"""What can go wrong between us and a gateway."""

from __future__ import annotations


class NotDelivered(Exception):
    """A gateway could not be reached or did not take the message; the text says why, in its words if it had any."""

    def __init__(self, text: str, *, permanent: bool = False) -> None:
        super().__init__(text)
        self.permanent = permanent
        """Whether the same message would be refused again."""
