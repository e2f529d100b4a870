"""The browser of the inbox."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.fixture
def client() -> Client:
    """A browser that reached the service as localhost."""
    return Client(headers={"Host": "localhost"})
