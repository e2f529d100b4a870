"""Internal errors of providers, which the endpoints translate into API errors."""

from __future__ import annotations


class InvalidProviderResponse(Exception):
    """A provider sent no usable response. The text gives the reason for the log, without content of the response."""


class ProviderUnavailable(Exception):
    """A provider that is unknown, disabled or not completely configured. Clients see the text."""
