"""Grants of the token endpoint (RFC 6749 §4, §6): their interface and registry, refresh tokens and PKCE codes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol

import msgspec

from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from tokens import errors
from tokens.api import payloads, schemas
from tokens.flows import flow_states
from tokens.sessions import refresh


class Grant(Protocol):
    """Issues a token response for one `grant_type`."""

    @property
    def input(self) -> type[msgspec.Struct]:
        """The type that the request body is parsed into."""

    response_schema: ClassVar[Any]
    """The schema of the token response, for the API documentation."""
    documented_errors: ClassVar[ErrorTypes]

    def exchange(self, body: Any, *, caller: Caller, at: datetime) -> dict[str, Any]:
        """The token response for a parsed body."""


_grants: dict[str, Grant] = {}
_positions: dict[str, int] = {}


def register(grant_type: str, grant: Grant, *, position: int) -> None:
    """Adds a grant to the token endpoint; `position` is that in the API documentation."""
    _grants[grant_type] = grant
    _positions[grant_type] = position


def registered() -> Mapping[str, Grant]:
    """The grants of all installed apps by `grant_type`, in the order of the API documentation."""
    return {grant_type: _grants[grant_type] for grant_type in sorted(_grants, key=_positions.__getitem__)}


def choose(grant_type: str) -> Grant:
    """Raises UnsupportedGrantType."""
    grant = _grants.get(grant_type)
    if grant is None:
        raise errors.UnsupportedGrantType
    return grant


class RefreshTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("refresh_token",)
    refresh_token: str | None = None


class RefreshTokenGrant:
    """Exchange a refresh token. Each refresh token is valid for one refresh."""

    input = RefreshTokenInput
    response_schema: ClassVar[Any] = schemas.Session
    documented_errors: ClassVar[ErrorTypes] = (
        errors.RefreshTokenNotValid,
        errors.RefreshTokenNotFound,
        errors.RefreshTokenNotIssuedHere,
        errors.RefreshTokenReused,
        errors.NoValidSession,
        errors.SessionExpired,
        errors.UserBannedAtRefresh,
        errors.TooManyConcurrentRefreshes,
        errors.ClientAuthenticationRequired,
    )

    def exchange(self, body: RefreshTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        result = refresh.refresh(token=body.refresh_token or "", caller=caller, at=at)
        return payloads.token_response(result.tokens, user=result.user)


class PkceInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("auth_code", "code_verifier")
    auth_code: str | None = None
    """The `code` parameter of the redirect."""
    code_verifier: str | None = None


class PkceGrant:
    """Exchange the code of a PKCE flow."""

    input = PkceInput
    response_schema: ClassVar[Any] = schemas.SessionOfFlow
    documented_errors: ClassVar[ErrorTypes] = (
        errors.AuthCodeOrVerifierMissing,
        errors.FlowStateNotFound,
        errors.FlowStateExpired,
        errors.BadCodeVerifier,
        errors.UnknownChallengeMethod,
        errors.UserBannedAtSignIn,
    )

    def exchange(self, body: PkceInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        if not body.auth_code or not body.code_verifier:
            raise errors.AuthCodeOrVerifierMissing
        exchange = flow_states.exchange_code(
            auth_code=body.auth_code, verifier=body.code_verifier, caller=caller, at=at
        )
        provider_tokens = {
            "provider_token": exchange.provider_token,
            "provider_refresh_token": exchange.provider_refresh_token,
        }
        return payloads.token_response(
            exchange.tokens,
            user=exchange.user,
            **{name: token for name, token in provider_tokens.items() if token},
        )
