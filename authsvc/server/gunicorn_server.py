"""The gunicorn HTTP server around `authsvc.wsgi`, with the project's own configuration file."""

from __future__ import annotations

from pathlib import Path

from gunicorn.app.wsgiapp import WSGIApplication


def run(configuration: Path) -> None:
    """Serve until a signal asks to stop; ends with SystemExit."""
    _Server(configuration).run()


class _Server(WSGIApplication):  # type: ignore[misc]  # gunicorn has no types
    def __init__(self, configuration: Path) -> None:
        self._configuration = configuration
        super().__init__()

    def load_config(self) -> None:
        # Not from the command line, which is Django's here.
        self.load_config_from_file(str(self._configuration))
        self.app_uri = "authsvc.wsgi"
