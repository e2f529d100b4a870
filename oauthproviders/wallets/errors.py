"""Errors of sign-in by wallet."""

from __future__ import annotations

from authsvc.errors import ApiError


class UnsupportedChain(ApiError):
    status = 400
    error_code = "web3_unsupported_chain"
    message = "Unsupported chain"


class Web3ProviderDisabled(ApiError):
    status = 422
    error_code = "web3_provider_disabled"
    message = "Web3 provider is disabled"
