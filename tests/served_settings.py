"""Django settings of the servers that tests start: those of the product, with cheap password hashes."""

from __future__ import annotations

import tests.production_libraries  # noqa: F401  (must precede the libraries)
from authsvc.settings import *  # noqa: F403

PASSWORD_HASHERS = ["tests.hashers.CheapArgon2id"]
