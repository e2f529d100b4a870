"""Checks of providers for the console and for `manage.py doctor`."""

from __future__ import annotations

from oauthproviders.provider_checks.checks import (
    built_in_provider_steps,
    check_built_in_provider,
    check_custom_provider,
    custom_provider_steps,
)
from oauthproviders.provider_checks.steps import Step

__all__ = [
    "Step",
    "built_in_provider_steps",
    "check_built_in_provider",
    "check_custom_provider",
    "custom_provider_steps",
]
