"""Django settings of the test run, independent of `.env` and the environment."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

ENVIRONMENT = {
    "AUTHSVC_CONFIG_FILE": os.devnull,
    "AUTH_SITE_URL": "http://localhost:3000",
    "AUTH_API_EXTERNAL_URL": "http://127.0.0.1:8081",
    "AUTH_DB_DRIVER": "postgres",
    "AUTH_JWT_SECRET": "test-secret-of-at-least-32-characters",
    "AUTH_JWT_AUD": "authenticated",
    "AUTH_JWT_DEFAULT_GROUP_NAME": "authenticated",
    "AUTH_LOG_LEVEL": "error",
    # All requests of a test come from one client, which may use a tenth of these.
    "AUTH_RATE_LIMIT_EMAIL_SENT": "300",
    "AUTH_RATE_LIMIT_SMS_SENT": "300",
}
"""Base settings of every test, in this process and in servers that tests start."""

MEMORY, DISK = Path("/dev/shm"), Path(tempfile.gettempdir())
_HAS_MEMORY = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30
DATABASE_FOLDER = MEMORY if _HAS_MEMORY else DISK
"""Parent of the directories of databases: in memory if 4 GiB are free, where a copy takes a sixth of the CPU time."""

for _name in [name for name in os.environ if name.startswith(("AUTH_", "AUTHSVC_"))]:
    del os.environ[_name]
os.environ.update(ENVIRONMENT)
# The processes of one test run share these variables; without DATABASE_URL the run starts its own PostgreSQL.
RUN_ID = os.environ.setdefault("TEST_RUN_ID", secrets.token_hex(4))
os.environ.setdefault("DATABASE_URL", f"embedded:{DATABASE_FOLDER / f'authsvc-test-{RUN_ID}'}")

from authsvc import settings as _product  # noqa: E402  (the environment had to come first)
from authsvc.settings import *  # noqa: E402, F403

INSTALLED_APPS = ["tests.flush_command", *_product.INSTALLED_APPS]
PRODUCTION_PASSWORD_HASHERS = _product.PASSWORD_HASHERS
PASSWORD_HASHERS = ["tests.hashers.CheapArgon2id"]
