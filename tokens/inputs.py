"""Bodies of the token endpoint."""

from __future__ import annotations

import msgspec


class RefreshTokenInput(msgspec.Struct, frozen=True):
    refresh_token: str | None = None


class PkceInput(msgspec.Struct, frozen=True):
    auth_code: str | None = None
    code_verifier: str | None = None
