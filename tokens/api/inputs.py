"""Request bodies of the token endpoint."""

from __future__ import annotations

from typing import ClassVar

from authsvc.api.parsing import Body


class RefreshTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("refresh_token",)
    refresh_token: str | None = None


class PkceInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("auth_code", "code_verifier")
    auth_code: str | None = None
    """The `code` parameter of the redirect."""
    code_verifier: str | None = None
