"""The decision of the user about the request of a device (RFC 8628 §3.3).

For the page at `/oauth/device`, in this order: `find(user_code, …)` returns the request as `DeviceRequest`, which the
page shows; `decide(user_code, approves=…, …)` records the decision. Both take the code as the user has typed it. A
device request is never approved by a former consent, because an attacker can send a code to a user (§5.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction

from authsvc import audit
from authsvc.api import throttling
from authsvc.api.throttling import Bucket
from authsvc.caller import Caller
from authsvc.db.sql import fetch_rows
from authsvc.errors import RequestRateExceeded
from authsvc.security import rate_limits
from oauthserver import scopes
from oauthserver.authorization import authorizations
from oauthserver.authorization.sign_in_requirements import SignInRequirements, sign_in_time
from oauthserver.clients.client_summary import ClientSummary
from oauthserver.device import user_codes
from oauthserver.errors import DeviceCodeNotFound
from oauthserver.models import AuthorizationStatus, DeviceAuthorization
from tokens.sessions import aal, locks
from tokens.sessions.users import SignedInUser

_ATTEMPTS = "DeviceCodeOfUser"
"""The bucket of the wrong codes of one user."""
MAX_ATTEMPTS = 10
"""Wrong codes of a user at once, and as many more in each hour."""
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A request that waits for the decision of the user."""

    user_code: str = field(repr=False)
    """As the device shows it, so that the user can compare both."""
    client: ClientSummary
    scope: str
    resource: str | None
    required_action: str
    """`reauthenticate` or `verify_second_factor`, before the user can approve; empty for none."""


def find(user_code: str, *, signed_in: SignedInUser, caller: Caller, at: datetime) -> DeviceRequest:
    """The request with a user code. The user is bound to it, and replaces an earlier one.

    Raises DeviceCodeNotFound, RequestRateExceeded after too many wrong codes, ImpersonationNotAllowed, and
    UserNotFoundForToken. Call it outside a transaction.
    """
    authorizations.refuse_impersonation(signed_in)
    _count_attempt(signed_in, caller=caller)
    with transaction.atomic(durable=True):
        locks.lock_user_against_deletion(signed_in.user.id)
        request = _lock(user_code, at=at)
        required_action = _requirements(request).find_required_action(signed_in)
        if request.user_id != signed_in.user.id:
            DeviceAuthorization.objects.filter(id=request.id).update(user_id=signed_in.user.id)
    rate_limits.refund(bucket=_ATTEMPTS, key=str(signed_in.user.id))
    return DeviceRequest(
        user_code=user_codes.render(user_codes.normalize(user_code)),
        client=ClientSummary.of(request.client),
        scope=request.scope,
        resource=request.resource,
        required_action=required_action,
    )


def decide(user_code: str, *, approves: bool, signed_in: SignedInUser, caller: Caller, at: datetime) -> None:
    """Record the decision of the user who has found the request.

    Raises DeviceCodeNotFound, also for a request of another user, ImpersonationNotAllowed, UserNotFoundForToken, and
    ReauthenticationRequired or SecondFactorRequired for an approval in a session that the client does not accept. Five
    statements.
    """
    authorizations.refuse_impersonation(signed_in)
    with transaction.atomic(durable=True):
        locks.lock_user_against_deletion(signed_in.user.id)
        request = _lock(user_code, at=at)
        if request.user_id != signed_in.user.id:
            raise DeviceCodeNotFound
        action = audit.Action.OAUTH_GRANT_DENIED
        if approves:
            _requirements(request).check(signed_in)
            action = audit.Action.OAUTH_GRANT_APPROVED
        authorizations.record_decision(action, request=request, signed_in=signed_in, caller=caller, at=at)
        row = DeviceAuthorization.objects.filter(id=request.id)
        if not approves:
            row.update(status=AuthorizationStatus.DENIED)
            return
        row.update(
            status=AuthorizationStatus.APPROVED,
            approved_at=at,
            authenticated_at=sign_in_time(signed_in),
            aal=signed_in.session.aal if signed_in.session else aal.AAL1,
            session_id=signed_in.session.id if signed_in.session else None,
        )
        consent = {
            "consent_id": uuid4(),
            "user_id": signed_in.user.id,
            "client_id": request.client_id,
            "scopes": scopes.normalize(request.scope),
            "resource": request.resource,
            "at": at,
        }
        fetch_rows(authorizations.store_consent_sql(), consent)


def _count_attempt(signed_in: SignedInUser, *, caller: Caller) -> None:
    """Limit the codes that a client and a user try. Raises RequestRateExceeded."""
    wait = throttling.consume(Bucket.DEVICE_CODE, key=caller.client or "unknown")
    if wait is None:
        per_second = MAX_ATTEMPTS / _HOUR.total_seconds()
        wait = rate_limits.consume(
            bucket=_ATTEMPTS, key=str(signed_in.user.id), burst=MAX_ATTEMPTS, per_second=per_second, life=_HOUR
        )
    if wait is not None:
        raise RequestRateExceeded(retry_after=wait)


def _lock(user_code: str, *, at: datetime) -> DeviceAuthorization:
    """Lock the pending request with a code. Raises DeviceCodeNotFound. Must run inside a transaction."""
    code = user_codes.normalize(user_code)
    if not code:
        raise DeviceCodeNotFound
    rows = DeviceAuthorization.objects.select_for_update(of=("self",)).select_related("client")
    request = rows.filter(user_code_hash=user_codes.hash_code(code), client__deleted_at__isnull=True).first()
    if request is None or request.status != AuthorizationStatus.PENDING or at > request.expires_at:
        raise DeviceCodeNotFound
    return request


def _requirements(request: DeviceAuthorization) -> SignInRequirements:
    return SignInRequirements(
        max_age=request.max_age, acr_values=request.acr_values or "", requested_at=request.created_at
    )
