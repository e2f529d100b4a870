"""Shows authorization requests to users, and records their decisions.

Each function locks the request without waiting; a request that another one has locked counts as unknown. The mark of an
expired request is committed before AuthorizationNotFound is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from uuid import uuid4

from django.db import transaction

from authsvc import audit, events
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows, namespaced
from authsvc.errors import ValidationFailed
from authsvc.events import EventType
from authsvc.security import crypto
from oauthserver import resources, scopes
from oauthserver.authorization import responses
from oauthserver.authorization.sign_in_requirements import NONE, SignInRequirements, sign_in_time
from oauthserver.clients.client_summary import ClientSummary
from oauthserver.clients.redirect_uris import is_registered
from oauthserver.errors import AuthorizationNotFound
from oauthserver.models import AuthorizationStatus, DeviceAuthorization, OAuthAuthorization, OAuthConsent
from tokens.sessions import aal, locks, users
from tokens.sessions.errors import ImpersonationNotAllowed
from tokens.sessions.users import SignedInUser

DECISIONS = {"approve": True, "deny": False}
"""`action` of a decision, in the API and in the forms of pages → `approves`."""
_ASKS_AGAIN = frozenset({"consent", "login", "select_account"})
"""Values of `prompt` with which a former consent does not count (OpenID Connect Core §3.1.2.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationDetails:
    """A request that waits for the decision of the user."""

    authorization_id: str
    redirect_uri: str
    client: ClientSummary
    scope: str
    resource: str | None
    prompt: str | None
    login_hint: str | None = field(repr=False)
    required_action: str
    """`reauthenticate` or `verify_second_factor`, before the user can approve; empty for none."""


def show(authorization_id: str, *, signed_in: SignedInUser, at: datetime) -> AuthorizationDetails | str:
    """The details of a request, or the redirect to the client if no decision of the user is needed.

    The first user who may decide is bound to the request. Raises AuthorizationNotFound, and ValidationFailed for a
    request that is decided.
    """
    refuse_impersonation(signed_in)
    with _locked(authorization_id, signed_in=signed_in, at=at) as request:
        if request.status != AuthorizationStatus.PENDING:
            raise ValidationFailed("authorization request cannot be processed")
        if request.user_id not in (None, signed_in.user.id) or not _has_valid_client(request):
            raise AuthorizationNotFound
        required_action = _requirements(request).find_required_action(signed_in)
        if request.user_id is None:
            redirect = _decide_without_user(request, signed_in, required_action, at=at)
            if redirect is not None:
                return redirect
            # Until the session meets the requirements, the user may still sign in to another account.
            if not required_action:
                OAuthAuthorization.objects.filter(id=request.id).update(user_id=signed_in.user.id)
    return AuthorizationDetails(
        authorization_id=authorization_id,
        redirect_uri=request.redirect_uri,
        client=ClientSummary.of(request.client),
        scope=request.scope,
        resource=request.resource,
        prompt=request.prompt,
        login_hint=request.login_hint,
        required_action=required_action,
    )


def decide(authorization_id: str, *, approves: bool, signed_in: SignedInUser, caller: Caller, at: datetime) -> str:
    """Record the decision of the user, and return the redirect to the client.

    Raises AuthorizationNotFound, ValidationFailed for a request that is decided, and ReauthenticationRequired or
    SecondFactorRequired for an approval in a session that the client does not accept. Four statements.
    """
    refuse_impersonation(signed_in)
    with _locked(authorization_id, signed_in=signed_in, at=at) as request:
        if request.status != AuthorizationStatus.PENDING:
            raise ValidationFailed("authorization request is no longer pending")
        if request.user_id != signed_in.user.id or not _has_valid_client(request):
            raise AuthorizationNotFound
        decision = partial(record_decision, request=request, signed_in=signed_in, caller=caller, at=at)
        if not approves:
            decision(audit.Action.OAUTH_GRANT_DENIED)
            return _refuse(request, signed_in, "access_denied", "User denied the request")
        _requirements(request).check(signed_in)
        decision(audit.Action.OAUTH_GRANT_APPROVED)
        return _approve(request, signed_in, stores_consent=True, at=at)


def release(authorization_id: str, *, signed_in: SignedInUser, at: datetime) -> None:
    """Let another account decide: the user to whom a pending request is bound gives it up. Three statements.

    Raises AuthorizationNotFound, and ValidationFailed for a request that is decided.
    """
    refuse_impersonation(signed_in)
    with _locked(authorization_id, signed_in=signed_in, at=at) as request:
        if request.status != AuthorizationStatus.PENDING:
            raise ValidationFailed("authorization request is no longer pending")
        if request.user_id != signed_in.user.id:
            raise AuthorizationNotFound
        OAuthAuthorization.objects.filter(id=request.id).update(user_id=None)


def find_login_hint(authorization_id: str, *, at: datetime) -> str:
    """The address with which the client expects the user to sign in; empty for none. One statement.

    Only of a request that no user has seen, so that it reveals nothing but the client's own text.
    """
    if "\0" in authorization_id:
        return ""
    unseen = OAuthAuthorization.objects.filter(
        authorization_id=authorization_id, status=AuthorizationStatus.PENDING, user_id__isnull=True, expires_at__gte=at
    )
    return unseen.values_list("login_hint", flat=True).first() or ""


def refuse_impersonation(signed_in: SignedInUser) -> None:
    """Raises ImpersonationNotAllowed, because a grant would outlive the session of the operator."""
    if signed_in.is_impersonated:
        raise ImpersonationNotAllowed


def _has_valid_client(request: OAuthAuthorization) -> bool:
    """True if the client still exists and still has the redirect URI."""
    client = request.client
    return client.deleted_at is None and is_registered(request.redirect_uri, client.redirect_uri_list)


def _requirements(request: OAuthAuthorization) -> SignInRequirements:
    return SignInRequirements(
        prompt=request.prompt or "",
        max_age=request.max_age,
        acr_values=request.acr_values or "",
        user_id=request.hinted_user_id,
        requested_at=request.created_at,
    )


def _decide_without_user(
    request: OAuthAuthorization, signed_in: SignedInUser, required_action: str, *, at: datetime
) -> str | None:
    """The redirect for a request that needs no decision, or for which none may be asked (`prompt=none`)."""
    prompts = _requirements(request).prompts
    is_silent = NONE in prompts
    if required_action:
        if not is_silent:
            return None
        error = "login_required" if required_action == "reauthenticate" else "interaction_required"
        return _refuse(request, signed_in, error, "The application requires another sign-in")
    if _ASKS_AGAIN.isdisjoint(prompts) and _has_consented(request, signed_in):
        return _approve(request, signed_in, stores_consent=False, at=at)
    if is_silent:
        return _refuse(request, signed_in, "consent_required", "The user has not consented to the request")
    return None


def _has_consented(request: OAuthAuthorization, signed_in: SignedInUser) -> bool:
    # Locked, so that a concurrent revocation either is seen here, or finds the code.
    consents = OAuthConsent.objects.select_for_update().filter(
        user_id=signed_in.user.id, client_id=request.client_id, revoked_at__isnull=True
    )
    granted = consents.values_list("scopes", "resource").first()
    if granted is None:
        return False
    return scopes.covers(granted[0], request.scope) and resources.covers(granted[1], request.resource or "")


def _approve(request: OAuthAuthorization, signed_in: SignedInUser, *, stores_consent: bool, at: datetime) -> str:
    """Store a new code, and return the redirect with it. One statement."""
    code = crypto.generate_auth_code()
    values = {
        "id": request.id,
        "user_id": signed_in.user.id,
        "code": crypto.hash_auth_code(code),
        "authenticated_at": sign_in_time(signed_in),
        "aal": signed_in.session.aal if signed_in.session else aal.AAL1,
        "session_id": signed_in.session.id if signed_in.session else None,
        "at": at,
        "consent_id": uuid4(),
        "client_id": request.client_id,
        "scopes": scopes.normalize(request.scope),
        "resource": request.resource,
    }
    fetch_rows(_approve_sql(stores_consent), values)
    return responses.code_url(request.redirect_uri, code=code, state=request.state)


def record_decision(
    action: audit.Action,
    *,
    request: OAuthAuthorization | DeviceAuthorization,
    signed_in: SignedInUser,
    caller: Caller,
    at: datetime,
) -> None:
    """Record the decision about the request of a client in the audit trail. One statement."""
    traits = {"client_id": str(request.client_id), "scopes": scopes.normalize(request.scope)}
    if request.resource:
        traits["resource"] = request.resource
    audit.record(action, actor=signed_in.user, caller=caller, at=at, traits=traits)
    if action is audit.Action.OAUTH_GRANT_APPROVED:
        events.record(
            EventType.OAUTH_GRANT_APPROVED,
            user_id=signed_in.user.id,
            user=lambda: users.user_source.user_json(signed_in.user),
            data=traits,
            at=at,
        )


def _refuse(request: OAuthAuthorization, signed_in: SignedInUser, error: str, description: str) -> str:
    """Deny the request, and return the redirect with the error. One statement."""
    OAuthAuthorization.objects.filter(id=request.id).update(
        status=AuthorizationStatus.DENIED, user_id=signed_in.user.id
    )
    return responses.error_url(request.redirect_uri, error=error, description=description, state=request.state)


@contextmanager
def _locked(authorization_id: str, *, signed_in: SignedInUser, at: datetime) -> Iterator[OAuthAuthorization]:
    """A transaction with the locked user and request. Raises AuthorizationNotFound, after an expired one is marked.

    Raises UserNotFoundForToken for a user who has been deleted meanwhile.
    """
    if "\0" in authorization_id:
        raise AuthorizationNotFound
    with transaction.atomic(durable=True):
        locks.lock_user_against_deletion(signed_in.user.id)
        rows = OAuthAuthorization.objects.select_for_update(of=("self",), skip_locked=True).select_related("client")
        request = rows.filter(authorization_id=authorization_id).first()
        if request is not None and at <= request.expires_at:
            yield request
            return
        if request is not None and request.status == AuthorizationStatus.PENDING:
            OAuthAuthorization.objects.filter(id=request.id).update(status=AuthorizationStatus.EXPIRED)
    raise AuthorizationNotFound


@cache
def _approve_sql(stores_consent: bool) -> str:
    approve = f"""
        UPDATE {namespaced("oauth_authorizations")} SET status = 'approved', user_id = %(user_id)s,
            approved_at = %(at)s, authorization_code = %(code)s, aal = %(aal)s,
            authenticated_at = %(authenticated_at)s::timestamptz, session_id = %(session_id)s::uuid
        WHERE id = %(id)s
    """  # noqa: S608  (own table names)
    if not stores_consent:
        return approve
    return f"WITH approved AS ({approve}) {store_consent_sql()}"


@cache
def store_consent_sql() -> str:
    """Store the consent of a user to the scopes and resources of a client; it replaces the former one."""
    return f"""
        INSERT INTO {namespaced("oauth_consents")} (id, user_id, client_id, scopes, resource, granted_at)
        VALUES (%(consent_id)s, %(user_id)s, %(client_id)s, %(scopes)s, %(resource)s, %(at)s)
        ON CONFLICT (user_id, client_id)
        DO UPDATE SET scopes = EXCLUDED.scopes, resource = EXCLUDED.resource, granted_at = EXCLUDED.granted_at,
            revoked_at = NULL
    """  # noqa: S608  (own table names)
