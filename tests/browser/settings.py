"""The service's settings with an inbox folder of this test's own."""

from __future__ import annotations

import os
from pathlib import Path

from authsvc.settings import *  # noqa: F403

DEV_INBOX_FOLDER = Path(os.environ["INBOX_FOLDER"])
