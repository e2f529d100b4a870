"""Bodies of the token endpoint."""

from __future__ import annotations

from authsvc.core.web.inputs import Body


class RefreshTokenInput(Body, frozen=True):
    refresh_token: str | None = None


class PkceInput(Body, frozen=True):
    auth_code: str | None = None
    code_verifier: str | None = None
