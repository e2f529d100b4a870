"""The shell of `manage.py dbshell`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql import client
from psycopg import conninfo

from authsvc.db import embedded


class DatabaseClient(client.DatabaseClient):
    """Runs psql; for an embedded database the one of its PostgreSQL, which starts if it is not running."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        folder = embedded.folder(settings_dict.get("HOST") or "")
        if folder is None:
            return super().settings_to_cmd_args_env(settings_dict, parameters)
        address = conninfo.conninfo_to_dict(embedded.start(folder))
        settings = {**settings_dict, "HOST": address["host"], "PORT": address["port"]}
        arguments, environment = super().settings_to_cmd_args_env(settings, parameters)
        return [str(embedded.program_folder() / cls.executable_name), *arguments[1:]], environment
