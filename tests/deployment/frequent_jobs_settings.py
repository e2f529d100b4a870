"""Django settings of servers whose periodic tasks run every few seconds."""

from __future__ import annotations

from tests.served_settings import *  # noqa: F403
from tests.served_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.deployment.frequent_jobs.FrequentJobs"]
