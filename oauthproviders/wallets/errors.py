"""Errors of sign-in by wallet."""

from __future__ import annotations

from authsvc.errors import ApiError


class UnsupportedChain(ApiError):
    status = 400
    error_code = "web3_unsupported_chain"
    message = "Unsupported chain"
