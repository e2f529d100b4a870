"""Why a database is not taken in; the message is for the operator, in one line or a short list."""

from __future__ import annotations


class ImportRefused(Exception):
    """Nothing was written. The message names no password, no secret and no address of a user."""
