"""The WSGI application, loaded once in every serving process, and the message worker that lives beside it."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authsvc.settings")
application = get_wsgi_application()

from authsvc.core import jobs, serving  # noqa: E402  (needs loaded apps)

serving.obey_parent()
jobs.start_in_process()
