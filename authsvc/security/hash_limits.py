"""Maximum costs of imported password hashes, at import and at verification.

A sign-in request verifies a hash, so a hash of unlimited cost would let one account occupy a processor. Each limit is
about one second of one core.
"""

from __future__ import annotations

MAX_BCRYPT_COST = 14
MAX_ARGON2_MEMORY = 262_144
"""KiB."""
MAX_ARGON2_TIME = 20
MAX_ARGON2_WORK = 786_432
"""Memory in KiB times passes."""
MAX_SCRYPT_WORK = 1 << 20
"""N times r times p (RFC 7914); Firebase uses an eighth of it."""
