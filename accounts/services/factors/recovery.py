"""Recovery codes: a set that is shown once, each good for one sign-in in place of a lost factor."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from accounts import errors, notices
from accounts.factors import recovery_codes
from accounts.models import RecoveryCode
from accounts.records import UserRecord
from accounts.services.factors import guessing, stepping
from accounts.services.factors.stepping import Verified
from authsvc.core import audit, messaging
from authsvc.core.caller import Caller
from authsvc.core.errors import UnexpectedFailure
from tokens import sign_ins
from tokens.services import sessions
from tokens.subjects import SignedIn

METHOD = "mfa/recovery_code"


def create(signed_in: SignedIn, user: UserRecord, *, caller: Caller, at: datetime) -> list[str]:
    """Make a new set of codes, in place of the one before; only from a session that has shown a factor.

    Raises RecoveryCodesDisabled, RecoveryCodesNeedFactor or RecoveryCodesNeedAal2.
    """
    check_enabled()
    codes = recovery_codes.make()
    with transaction.atomic(durable=True):
        held = sessions.hold(signed_in)
        if not held.subject.has_verified_factor:
            raise errors.RecoveryCodesNeedFactor
        if not held.is_aal2:
            raise errors.RecoveryCodesNeedAal2
        RecoveryCode.objects.filter(user_id=user.id)._raw_delete("default")
        RecoveryCode.objects.bulk_create(
            RecoveryCode(user_id=user.id, code_hash=recovery_codes.digest(code, user_id=user.id), created_at=at)
            for code in codes
        )
        audit.record(audit.Action.RECOVERY_CODES_CREATED, actor=user, caller=caller, at=at)
    return codes


def remaining(user: UserRecord) -> int:
    """How many codes are left. Raises RecoveryCodesDisabled."""
    check_enabled()
    return RecoveryCode.objects.filter(user_id=user.id).count()


@sign_ins.watched("mfa", who=lambda done: done.user.id)
def verify(signed_in: SignedIn, user: UserRecord, *, code: str, caller: Caller, at: datetime) -> Verified:
    """Use a code up, which raises the session as a factor does.

    Raises FactorCodeMissing, RecoveryCodesDisabled, RecoveryCodeInvalid, RequestRateExceeded after too many wrong ones.
    """
    if not code:
        raise errors.FactorCodeMissing
    check_enabled()
    if signed_in.session is None:
        raise UnexpectedFailure("Cannot read SessionId claim as UUID")
    digest = recovery_codes.digest(code, user_id=user.id)
    with guessing.counted(user.id, METHOD):
        return stepping.step_up(
            signed_in,
            method=METHOD,
            factor_id=None,
            take=lambda held: _take(held, user, digest, caller=caller, at=at),
            caller=caller,
            at=at,
        )


def check_enabled() -> None:
    if not settings.AUTH.mfa.recovery_codes_enabled:
        raise errors.RecoveryCodesDisabled


def _take(held: SignedIn, user: UserRecord, digest: str, *, caller: Caller, at: datetime) -> None:
    # A code stands in for a factor; where there is none, there is nothing that it could stand in for.
    if not held.subject.has_verified_factor:
        raise errors.RecoveryCodeInvalid
    if not RecoveryCode.objects.filter(user_id=user.id, code_hash=digest)._raw_delete("default"):
        raise errors.RecoveryCodeInvalid
    left = RecoveryCode.objects.filter(user_id=user.id).count()
    audit.record(audit.Action.RECOVERY_CODE_USED, actor=user, caller=caller, at=at, traits={"remaining": left})
    if user.email:
        messaging.post(notices.recovery_code_used(user, remaining=left))
