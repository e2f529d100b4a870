"""Django's admin as an app, with the console's site."""

from __future__ import annotations

from django.contrib.admin.apps import AdminConfig
from django.contrib.contenttypes.management import create_contenttypes
from django.db.models.signals import post_migrate


class ConsoleConfig(AdminConfig):
    default_site = "authsvc.console.site.OperatorSite"

    def ready(self) -> None:
        super().ready()
        # Permissions follow from the role, so the rows these receivers write after each migration are unused.
        post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
        post_migrate.disconnect(create_contenttypes)
