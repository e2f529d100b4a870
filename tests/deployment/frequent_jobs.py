"""Runs each periodic task every few seconds instead of once a minute or an hour, with `frequent_jobs_settings`."""

from __future__ import annotations

import dataclasses

from django.apps import AppConfig

from authsvc.jobs import registry

PERIOD_SECONDS = 5


class FrequentJobs(AppConfig):
    """Must be the last app, because the others register the tasks."""

    name = "tests.deployment"

    def ready(self) -> None:
        for task in list(registry.periodic_tasks.values()):
            registry.periodic_tasks[task.name] = dataclasses.replace(task, cron=f"* * * * * */{PERIOD_SECONDS}")
