"""Grants of the token endpoint (RFC 6749 §4, §6): interface, registry, response; refresh tokens and PKCE codes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Protocol

from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from tokens.api import errors, schemas
from tokens.flows import errors as flow_errors
from tokens.flows import flow_states
from tokens.sessions import errors as session_errors
from tokens.sessions import refresh, users
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import TokenUser


class Grant(Protocol):
    """Issues a token response for one `grant_type`."""

    @property
    def input(self) -> type[Body]:
        """The type that the request body is parsed into."""

    response_schema: ClassVar[Any]
    """The schema of the token response, for the API documentation."""
    documented_errors: ClassVar[ErrorTypes]

    def exchange(self, body: Any, *, caller: Caller, at: datetime) -> dict[str, Any]:
        """The token response for a parsed body."""


_grants: dict[str, Grant] = {}
_positions: dict[str, int] = {}


def register(grant_type: str, grant: Grant, *, position: int) -> None:
    """Add a grant to the token endpoint; `position` is that in the API documentation."""
    _grants[grant_type] = grant
    _positions[grant_type] = position


def registered() -> Mapping[str, Grant]:
    """The grants of all installed apps by `grant_type`, in the order of the API documentation."""
    return {grant_type: _grants[grant_type] for grant_type in sorted(_grants, key=_positions.__getitem__)}


def choose(grant_type: str) -> Grant:
    """The grant of a `grant_type`. Raises UnsupportedGrantType."""
    grant = _grants.get(grant_type)
    if grant is None:
        raise errors.UnsupportedGrantType
    return grant


def token_response(tokens: TokenPair, *, user: TokenUser, **additional: Any) -> dict[str, Any]:
    """The token response (RFC 6749 §5.1) with the user, and additional members."""
    return {
        "access_token": tokens.access.token,
        "token_type": "bearer",
        "expires_in": tokens.access.expires_in,
        "expires_at": tokens.access.expires_at,
        "refresh_token": tokens.refresh_token,
        "user": users.user_source.user_json(user),
        **additional,
    }


def token_fragment(tokens: TokenPair, **additional: str) -> dict[str, str]:
    """The parameters for the fragment of a redirect, which do not include the user."""
    return {
        "access_token": tokens.access.token,
        "expires_at": str(tokens.access.expires_at),
        "expires_in": str(tokens.access.expires_in),
        "refresh_token": tokens.refresh_token,
        "sb": "",
        "token_type": "bearer",
        **additional,
    }


class RefreshTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("refresh_token",)
    refresh_token: str | None = None


class RefreshTokenGrant:
    """Exchange a refresh token. Each refresh token is valid for one refresh."""

    input = RefreshTokenInput
    response_schema: ClassVar[Any] = schemas.Session
    documented_errors: ClassVar[ErrorTypes] = (
        session_errors.RefreshTokenNotValid,
        session_errors.RefreshTokenNotFound,
        session_errors.RefreshTokenNotIssuedHere,
        session_errors.RefreshTokenReused,
        session_errors.NoValidSession,
        session_errors.SessionExpired,
        session_errors.UserBannedAtRefresh,
        session_errors.TooManyConcurrentRefreshes,
        session_errors.ClientAuthenticationRequired,
    )

    def exchange(self, body: RefreshTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        result = refresh.refresh(token=body.refresh_token or "", caller=caller, at=at)
        return token_response(result.tokens, user=result.user)


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
        flow_errors.FlowStateNotFound,
        flow_errors.FlowStateExpired,
        flow_errors.BadCodeVerifier,
        flow_errors.UnknownChallengeMethod,
        session_errors.UserBannedAtSignIn,
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
        return token_response(
            exchange.tokens,
            user=exchange.user,
            **{name: token for name, token in provider_tokens.items() if token},
        )
