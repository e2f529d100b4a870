"""The id_token grant: sign-in, or linking of an identity, with an ID token that the client got from the issuer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from accounts.errors import RecentSignInNeeded
from accounts.identities import errors as identity_errors
from accounts.identities import external_sign_in, linking
from accounts.identities.external_identity import ExternalIdentity, UnusableSubject
from accounts.identities.external_sign_in import AccountMatch
from accounts.passwords import change_proofs
from accounts.users.queries import AccountUsers
from accounts.users.records import UserRecord
from authsvc import conf, messaging
from authsvc.api.openapi.document import ErrorTypes
from authsvc.api.parsing import Body
from authsvc.caller import Caller
from authsvc.errors import ApiError, OAuthError, UnexpectedFailure, ValidationFailed
from authsvc.security import crypto
from oauthproviders.base import deadline
from oauthproviders.base.contract import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.flow import errors, id_token_audiences
from oauthproviders.flow.id_token_audiences import IdTokenCredential, TrustedIssuer
from oauthproviders.oidc import openid_connect
from tokens.api import authentication, grants, permissions, schemas
from tokens.api.authentication import BearerAuthentication
from tokens.api.errors import ClientTokenNotAllowed
from tokens.jwt.access_tokens import MAX_TOKEN_LENGTH
from tokens.sessions import impersonation, lifecycle, sign_in_metrics
from tokens.sessions.errors import ImpersonationNotAllowed
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser

_INVALID = "invalid request"  # with a space: clients match on it
_METHOD = "oauth"

logger = logging.getLogger(__name__)


class IdTokenInput(Body, frozen=True):
    needs: ClassVar[tuple[str, ...]] = ("id_token",)
    example: ClassVar[tuple[str, ...]] = ("provider", "id_token")
    id_token: str | None = None
    provider: str | None = None
    """The provider's name; otherwise `client_id` and `issuer` are required."""
    client_id: str | None = None
    issuer: str | None = None
    access_token: str | None = None
    """Compared with `at_hash` of the ID token."""
    nonce: str | None = None
    """The SHA-256 of this value is compared with `nonce` of the ID token."""
    link_identity: bool | None = None
    """Link the identity to the user of the bearer token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTokenSignIn:
    user: UserRecord
    tokens: TokenPair


class IdTokenGrant:
    """Sign in with an ID token that the application obtained from another issuer, or link its identity."""

    input = IdTokenInput
    response_schema: ClassVar[Any] = schemas.Session
    documented_errors: ClassVar[ErrorTypes] = (
        OAuthError,
        ValidationFailed,
        RecentSignInNeeded,
        errors.ProviderDisabled,
        *BearerAuthentication.documented_errors,
        ClientTokenNotAllowed,
        ImpersonationNotAllowed,
        *identity_errors.EXTERNAL_IDENTITY,
    )

    def exchange(self, body: IdTokenInput, *, caller: Caller, at: datetime) -> dict[str, Any]:
        parameters = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        result = sign_in(IdTokenCredential(**{"id_token": "", **parameters}), caller=caller, at=at)
        return grants.token_response(result.tokens, user=result.user)


@sign_in_metrics.measure_sign_in("oidc", user_id=lambda result: result.user.id)
def sign_in(credential: IdTokenCredential, *, caller: Caller, at: datetime) -> IdTokenSignIn:
    """Sign in the user of an ID token, or link its identity to the signed-in caller, and start a session.

    Raises OAuthError, ValidationFailed, ProviderDisabled, UnexpectedFailure, when linking the errors of a bearer
    token, the errors of signing in or linking, and SignInFailed for every other error after the verification.
    """
    if not credential.id_token:
        raise OAuthError(_INVALID, "id_token required")
    if len(credential.id_token) > MAX_TOKEN_LENGTH:
        raise OAuthError(_INVALID, "id_token too long")
    if not credential.provider and not (credential.client_id and credential.issuer):
        raise OAuthError(_INVALID, "provider or client_id and issuer required")
    target = _authenticate(caller, at=at) if credential.link_identity else None
    identity = _verify_identity(credential)
    try:
        if target is None:
            result = _sign_in(identity, caller=caller, at=at)
        else:
            result = _link(identity, target, caller=caller, at=at)
        # The statement that updated the user returned its identities as they were before the update.
        return IdTokenSignIn(user=AccountUsers().find_user(result.user.id) or result.user, tokens=result.tokens)
    except (ApiError, OAuthError):
        raise
    except Exception as error:  # clients of this grant expect an OAuth error instead of a 500
        raise errors.SignInFailed from error


def _sign_in(identity: ExternalIdentity, *, caller: Caller, at: datetime) -> IdTokenSignIn:
    def store(match: AccountMatch) -> IdTokenSignIn:
        return _store_sign_in(match, caller=caller, at=at)

    return external_sign_in.attempt(identity, store, caller=caller, at=at)


def _store_sign_in(match: AccountMatch, *, caller: Caller, at: datetime) -> IdTokenSignIn:
    with (
        messaging.reserved("email" if match.confirmation_recipient else None),
        token_transaction(caller, issues_token=match.error is None),
    ):
        if match.error is None:
            lifecycle.announce_session(caller)
        signed_in = external_sign_in.sign_in(
            match, starts_session=True, redirect_to=conf.current().site.url, caller=caller, at=at
        )
        if signed_in.error is None:
            tokens = lifecycle.start_session(
                user=signed_in.user, method=_METHOD, provider=match.identity.provider, caller=caller, at=at
            )
            return IdTokenSignIn(user=signed_in.user, tokens=tokens)
    raise signed_in.error


def _link(identity: ExternalIdentity, target: SignedInUser, *, caller: Caller, at: datetime) -> IdTokenSignIn:
    """Link the identity to the user and start a session, in one transaction."""
    change_proofs.check_new_sign_in_method(target, at=at)
    request = linking.prepare(identity, target, caller=caller, at=at)
    with (
        messaging.reserved(None if request.is_verified else "email"),
        token_transaction(caller, issues_token=request.error is None),
    ):
        user = linking.lock_user(target, at=at)
        if request.error is None:
            lifecycle.announce_session(caller)
        linked = linking.link(
            request, user, starts_session=True, redirect_to=conf.current().site.url, caller=caller, at=at
        )
        if linked.error is None:
            tokens = lifecycle.start_session(
                user=linked.user, method=_METHOD, provider=identity.provider, caller=caller, at=at
            )
            return IdTokenSignIn(user=linked.user, tokens=tokens)
    raise linked.error


def _authenticate(caller: Caller, *, at: datetime) -> SignedInUser:
    token = authentication.bearer_token({"HTTP_AUTHORIZATION": caller.authorization})
    if token is None:
        raise OAuthError(_INVALID, "Linking requires a valid user access token in Authorization")
    signed_in, _claims = authentication.authenticate_user(token, caller=caller, at=at)
    if signed_in.is_impersonated:
        impersonation.refuse(signed_in, request="POST token?grant_type=id_token", caller=caller, at=at)
    if permissions.is_restricted(signed_in):
        raise ClientTokenNotAllowed
    return signed_in


@deadline.shared()
def _verify_identity(credential: IdTokenCredential) -> ExternalIdentity:
    """The identity of a verified ID token. Runs outside of any transaction."""
    trusted = id_token_audiences.find_trusted_issuer(credential)
    token_claims = _verify_token(credential, trusted)
    if not token_claims.get("sub"):
        raise OAuthError(_INVALID, "Missing sub claim in id_token")
    _check_audience(token_claims, trusted)
    if trusted.checks_nonce:
        _check_nonce(credential.nonce, claimed=token_claims.get("nonce") or "")
    try:
        profile = trusted.profile_of(token_claims)
        return ExternalIdentity.from_profile(profile, provider=trusted.provider, email_optional=trusted.email_optional)
    except (InvalidProviderResponse, UnusableSubject) as error:
        raise _invalid_token(trusted, error) from None


def _verify_token(credential: IdTokenCredential, trusted: TrustedIssuer) -> dict[str, Any]:
    try:
        openid_connect.discover(trusted.issuer)
    except ProviderUnavailable as error:
        fields = {"event": "id_token.discovery", "provider": trusted.provider, "error": str(error)}
        logger.error("the discovery document of an ID token issuer cannot be read", extra=fields)
        raise UnexpectedFailure from None
    try:
        return openid_connect.verify(
            credential.id_token, issuer=trusted.issuer, audiences=None, access_token=credential.access_token
        )
    except (InvalidProviderResponse, ProviderUnavailable) as error:
        raise _invalid_token(trusted, error) from None


def _invalid_token(trusted: TrustedIssuer, error: Exception) -> OAuthError:
    fields = {"event": "id_token.refused", "provider": trusted.provider, "error": str(error)}
    logger.warning("an ID token was refused", extra=fields)
    return OAuthError(_INVALID, "Bad ID token")


def _check_audience(token_claims: Mapping[str, Any], trusted: TrustedIssuer) -> None:
    aud = token_claims.get("aud") or []
    audiences = [aud] if isinstance(aud, str) else aud
    if set(audiences).isdisjoint(trusted.audiences):
        raise OAuthError(_INVALID, f"Unacceptable audience in id_token: [{' '.join(audiences)}]")


def _check_nonce(nonce: str, *, claimed: str) -> None:
    """The claim is the SHA-256 of the nonce that the client sends (OpenID Connect Core §3.1.3.7)."""
    if bool(nonce) != bool(claimed):
        raise OAuthError(_INVALID, "Passed nonce and nonce in id_token should either both exist or not.")
    if nonce and not crypto.constant_time_equal(hashlib.sha256(nonce.encode()).hexdigest(), claimed):
        raise OAuthError("invalid nonce", "Nonces mismatch")
