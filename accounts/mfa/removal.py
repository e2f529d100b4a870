"""Removal of second factors, which lowers the sessions that they have stepped up."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.messages import notification_emails
from accounts.mfa import errors
from accounts.models import Factor, FactorStatus, RecoveryCode
from accounts.users import user_events
from accounts.users.records import UserRecord
from authsvc import audit, messaging
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from authsvc.events import EventType
from tokens.sessions import aal, locks, step_up
from tokens.sessions.users import SignedInUser


def unenroll(
    signed_in: SignedInUser,
    user: UserRecord,
    factor_id: UUID,
    *,
    keeps_last: bool = False,
    caller: Caller,
    at: datetime,
) -> None:
    """Remove a factor of the signed-in user; a verified one only from a session at aal2.

    Raises FactorNotFound, UnenrolmentNeedsAal2 or, with `keeps_last`, LastFactor for the only verified factor.
    """
    if signed_in.session is None:
        raise UnexpectedFailure("A valid session and factor are required to unenroll a factor")
    with transaction.atomic(durable=True):
        locked = locks.lock_signed_in_user(signed_in)
        factor = Factor.objects.select_for_update().filter(id=factor_id, user_id=user.id).first()
        if factor is None:
            raise errors.FactorNotFound
        if factor.status == FactorStatus.VERIFIED:
            aal.check_aal(locked, error=errors.UnenrolmentNeedsAal2)
            others = Factor.objects.filter(user_id=user.id, status=FactorStatus.VERIFIED).exclude(id=factor.id)
            if keeps_last and not others.exists():
                raise errors.LastFactor
        traits = {
            "factor_id": str(factor.id),
            "factor_status": str(factor.status),
            "session_id": str(signed_in.session.id),
        }
        audit.record(audit.Action.FACTOR_UNENROLLED, actor=user, caller=caller, at=at, traits=traits)
        delete_factor(user.id, factor.id)
        if factor.status == FactorStatus.VERIFIED:
            user_events.record_factor(
                EventType.FACTOR_UNENROLLED,
                user.id,
                factor_id=str(factor.id),
                factor_type=str(factor.factor_type),
                friendly_name=factor.friendly_name or "",
                at=at,
            )
        if user.email:
            messaging.send(notification_emails.factor_unenrolled(user, factor_type=factor.factor_type))


def delete_unfinished(user: UserRecord, factor_id: UUID) -> None:
    """Delete a factor whose enrolment was not completed; it protects nothing yet. One statement."""
    Factor.objects.filter(id=factor_id, user_id=user.id, status=FactorStatus.UNVERIFIED).delete_rows()


def delete_factor(user_id: UUID, factor_id: UUID) -> bool:
    """Delete a factor and lower the sessions that it has stepped up; False when there is no such factor.

    With the last verified factor, the recovery codes are deleted and every session returns to aal1. Must run inside a
    transaction.
    """
    with transaction.atomic(savepoint=False):
        if not Factor.objects.filter(id=factor_id, user_id=user_id).delete_rows():
            return False
        if Factor.objects.filter(user_id=user_id, status=FactorStatus.VERIFIED).exists():
            step_up.step_down(user_id, factor_id=factor_id)
        else:
            RecoveryCode.objects.filter(user_id=user_id).delete_rows()
            step_up.step_down(user_id)
        return True
