"""Django settings of the servers that tests start: those of the product, with cheap password hashes."""

from __future__ import annotations

import sys

import dns._features

# Other libraries import these if they find them. Only the development environment has them, and they take a fifth of
# the time of a start.
for _name in ("markdown", "pygments", "yaml"):
    sys.modules[_name] = None  # type: ignore[assignment]  # imports fail, as in production
dns._features.force("doh", False)

from authsvc.settings import *  # noqa: E402, F403  (follows the libraries)

PASSWORD_HASHERS = ["tests.hashers.CheapArgon2id"]
