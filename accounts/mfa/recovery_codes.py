"""Recovery codes: a set that is shown once, each good for one sign-in in place of a lost factor."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.messages import notification_emails
from accounts.mfa import attempt_limits, errors, recovery_code_format, step_up
from accounts.mfa.step_up import Verified
from accounts.models import RecoveryCode
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.subjects import SignedIn

METHOD = "mfa/recovery_code"


def create(signed_in: SignedIn, user: UserRecord, *, caller: Caller, at: datetime) -> list[str]:
    """Make a new set of codes, in place of the one before; only from a session that has shown a factor.

    Raises RecoveryCodesDisabled, RecoveryCodesNeedFactor or RecoveryCodesNeedAal2.
    """
    check_enabled()
    codes = recovery_code_format.make()
    with transaction.atomic(durable=True):
        held = lifecycle.hold(signed_in)
        if not held.subject.has_verified_factor:
            raise errors.RecoveryCodesNeedFactor
        if not held.is_aal2:
            raise errors.RecoveryCodesNeedAal2
        RecoveryCode.objects.filter(user_id=user.id).delete_rows()
        RecoveryCode.objects.bulk_create(
            RecoveryCode(user_id=user.id, code_hash=recovery_code_format.digest(code, user_id=user.id), created_at=at)
            for code in codes
        )
        audit.record(audit.Action.RECOVERY_CODES_CREATED, actor=user, caller=caller, at=at)
    return codes


def remaining(user: UserRecord) -> int:
    """How many codes are left. Raises RecoveryCodesDisabled."""
    check_enabled()
    return RecoveryCode.objects.filter(user_id=user.id).count()


@sign_in_metrics.watched("mfa", who=lambda done: done.user.id)
def verify(signed_in: SignedIn, user: UserRecord, *, code: str, caller: Caller, at: datetime) -> Verified:
    """Use a code up, which raises the session as a factor does.

    Raises FactorCodeMissing, RecoveryCodesDisabled, RecoveryCodeInvalid, RequestRateExceeded after too many wrong ones.
    """
    if not code:
        raise errors.FactorCodeMissing
    check_enabled()
    if signed_in.session is None:
        raise UnexpectedFailure("Cannot read SessionId claim as UUID")
    digest = recovery_code_format.digest(code, user_id=user.id)
    with attempt_limits.counted(user.id, METHOD):
        return step_up.step_up(
            signed_in,
            method=METHOD,
            factor_id=None,
            take=lambda held: _take(held, user, digest, caller=caller, at=at),
            caller=caller,
            at=at,
        )


def check_enabled() -> None:
    if not conf.current().mfa.recovery_codes_enabled:
        raise errors.RecoveryCodesDisabled


def _take(held: SignedIn, user: UserRecord, digest: str, *, caller: Caller, at: datetime) -> None:
    # A code stands in for a factor; where there is none, there is nothing that it could stand in for.
    if not held.subject.has_verified_factor:
        raise errors.RecoveryCodeInvalid
    if not RecoveryCode.objects.filter(user_id=user.id, code_hash=digest).delete_rows():
        raise errors.RecoveryCodeInvalid
    left = RecoveryCode.objects.filter(user_id=user.id).count()
    audit.record(audit.Action.RECOVERY_CODE_USED, actor=user, caller=caller, at=at, traits={"remaining": left})
    if user.email:
        messaging.send(notification_emails.recovery_code_used(user, remaining=left))
