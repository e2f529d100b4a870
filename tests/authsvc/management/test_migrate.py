"""`manage.py migrate` without pending migrations."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("options", "is_logged"), [({}, True), ({"plan": True}, False), ({"check_unapplied": True}, False)]
)
def test_only_a_run_that_applies_migrations_says_so(
    options: dict[str, Any], is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        call_command("migrate", verbosity=0, **options)
    assert ("migrations applied" in caplog.messages) is is_logged
