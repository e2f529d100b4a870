"""Signing in, or linking an identity, with an ID token that somebody got from its issuer without us."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts.identities import external_sign_in, linking
from accounts.identities.external_identity import ExternalIdentity
from accounts.users.records import UserRecord
from accounts.users.user_source import AccountUsers, get_user_record
from authsvc import conf
from authsvc.caller import Caller
from authsvc.errors import ApiError, OAuthError, UnexpectedFailure
from authsvc.security import crypto
from oauthproviders.base import deadline
from oauthproviders.errors import NotEntered, Unsupported, Unusable
from oauthproviders.oidc import id_token_audiences, openid_connect
from oauthproviders.oidc.id_token_audiences import Claim, Trusted
from tokens.api import bearer_auth
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.issuance import TokenPair
from tokens.sessions.users import SignedInUser

_INVALID = "invalid request"  # with a blank, as clients have come to know it
_METHOD = "oauth"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """An ID token and what was said with it; `""` for what was not."""

    id_token: str = field(repr=False)
    provider: str = ""
    client_id: str = ""
    issuer: str = ""
    access_token: str = field(default="", repr=False)
    nonce: str = field(default="", repr=False)
    link_identity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    user: UserRecord
    tokens: TokenPair


@sign_in_metrics.measure_sign_in("oidc", user_id=lambda done: done.user.id)
def enter(presented: Presented, *, caller: Caller, at: datetime) -> Entered:
    """Start a session for whoever the token is about, or for the caller, who has one more identity then.

    Raises OAuthError, ValidationFailed, ProviderDisabled, UnexpectedFailure, for a caller the errors of a bearer
    token, those of signing in or linking with an identity, and NotEntered for whatever else happens then.
    """
    if not presented.id_token:
        raise OAuthError(_INVALID, "id_token required")
    if not presented.provider and not (presented.client_id and presented.issuer):
        raise OAuthError(_INVALID, "provider or client_id and issuer required")
    target = _signed_in(caller, at=at) if presented.link_identity else None
    identity = _identity(presented)
    try:
        if target is None:
            entered = _sign_in(identity, caller=caller, at=at)
        else:
            entered = _link(identity, target, caller=caller, at=at)
        # The statement that updated the user returned the identities from before the update.
        return Entered(user=AccountUsers().find_user(entered.user.id) or entered.user, tokens=entered.tokens)
    except (ApiError, OAuthError):
        raise
    except Exception as error:  # nobody knows what the client could do about it
        raise NotEntered from error


def _sign_in(identity: ExternalIdentity, *, caller: Caller, at: datetime) -> Entered:
    match = external_sign_in.prepare(identity, audience=caller.audience, at=at)
    with transaction.atomic(durable=True):
        signed_in = external_sign_in.sign_in(
            match, starts_session=True, redirect_to=conf.current().site.url, caller=caller, at=at
        )
        if signed_in.refusal is None:
            tokens = lifecycle.start_session(user=signed_in.user, method=_METHOD, caller=caller, at=at)
            return Entered(user=signed_in.user, tokens=tokens)
    raise signed_in.refusal


def _link(identity: ExternalIdentity, target: SignedInUser, *, caller: Caller, at: datetime) -> Entered:
    request = linking.prepare(identity, get_user_record(target))
    with transaction.atomic(durable=True):
        user = linking.lock_user(request, at=at)
        lifecycle.lock_signed_in_user(target)
        linked = linking.link(
            request, user, starts_session=True, redirect_to=conf.current().site.url, caller=caller, at=at
        )
        if linked.refusal is None:
            tokens = lifecycle.start_session(user=linked.user, method=_METHOD, caller=caller, at=at)
            return Entered(user=linked.user, tokens=tokens)
    raise linked.refusal


def _signed_in(caller: Caller, *, at: datetime) -> SignedInUser:
    token = bearer_auth.bearer_token({"HTTP_AUTHORIZATION": caller.authorization})
    if token is None:
        raise OAuthError(_INVALID, "Linking requires a valid user access token in Authorization")
    found, _claims = bearer_auth.authenticate(token, at=at)
    return found


@deadline.shared()
def _identity(presented: Presented) -> ExternalIdentity:
    """Who the token is about. Nothing of the database is held while its issuer is asked."""
    trusted = id_token_audiences.choose(
        Claim(
            id_token=presented.id_token,
            provider=presented.provider,
            client_id=presented.client_id,
            issuer=presented.issuer,
        )
    )
    said = _verified(presented, trusted)
    if not said.get("sub"):
        raise OAuthError(_INVALID, "Missing sub claim in id_token")
    _check_audience(said, trusted)
    if trusted.checks_nonce:
        _check_nonce(presented.nonce, told=said.get("nonce") or "")
    try:
        profile = trusted.profile_of(said)
    except Unusable as error:
        raise _bad(trusted, error) from None
    return ExternalIdentity.from_profile(profile, provider=trusted.provider, email_optional=trusted.email_optional)


def _verified(presented: Presented, trusted: Trusted) -> dict[str, Any]:
    try:
        openid_connect.discover(trusted.issuer)
    except Unsupported as error:
        fields = {"event": "id_token.discovery", "provider": trusted.provider, "error": str(error)}
        logger.error("an issuer of ID tokens cannot be asked", extra=fields)
        raise UnexpectedFailure from None
    try:
        return openid_connect.verify(
            presented.id_token, issuer=trusted.issuer, audiences=None, access_token=presented.access_token
        )
    except (Unusable, Unsupported) as error:
        raise _bad(trusted, error) from None


def _bad(trusted: Trusted, error: Exception) -> OAuthError:
    fields = {"event": "id_token.refused", "provider": trusted.provider, "error": str(error)}
    logger.warning("an ID token is refused", extra=fields)
    return OAuthError(_INVALID, "Bad ID token")


def _check_audience(said: Mapping[str, Any], trusted: Trusted) -> None:
    aud = said.get("aud") or []
    meant_for = [aud] if isinstance(aud, str) else aud
    if set(meant_for).isdisjoint(trusted.audiences):
        raise OAuthError(_INVALID, f"Unacceptable audience in id_token: [{' '.join(meant_for)}]")


def _check_nonce(given: str, *, told: str) -> None:
    """Whether the token was made for whoever knows what its nonce is the digest of."""
    if bool(given) != bool(told):
        raise OAuthError(_INVALID, "Passed nonce and nonce in id_token should either both exist or not.")
    if given and not crypto.constant_time_equal(hashlib.sha256(given.encode()).hexdigest(), told):
        raise OAuthError("invalid nonce", "Nonces mismatch")
