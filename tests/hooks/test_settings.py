"""Each hook has settings."""

from __future__ import annotations

from authsvc.conf.sections.hooks import HOOKS
from hooks.names import Hook


def test_the_settings_name_every_hook() -> None:
    assert set(HOOKS) == {hook.name.lower() for hook in Hook}
