"""Recovery codes: a set that is shown once, each good for one verification in place of a lost factor."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.messages import notification_emails
from accounts.mfa import errors, verification
from accounts.mfa.verification import StepUpResult
from accounts.models import RecoveryCode
from accounts.users import failed_attempts
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from tokens.sessions import aal, locks, sign_in_metrics
from tokens.sessions.users import SignedInUser

METHOD = "mfa/recovery_code"
SET_SIZE = 10

# The alphabet omits letters that look like digits or like each other. Sixteen characters contain 80 bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 16
_GROUP = 4
_MISREAD = str.maketrans("ilo", "110", " -")


def generate() -> list[str]:
    """A set of new codes, each `xxxx-xxxx-xxxx-xxxx`."""
    return [_generate_one() for _ in range(SET_SIZE)]


def hash_code(code: str, *, user_id: UUID) -> str:
    """The stored form of a user's code: 64 hex digits. Ignores blanks, hyphens, case and misread letters.

    A fast hash is enough, because 2^80 codes cannot be tried.
    """
    bare = code.strip().lower().translate(_MISREAD)
    return hashlib.sha256(f"{user_id}:{bare}".encode()).hexdigest()


def create(signed_in: SignedInUser, user: UserRecord, *, caller: Caller, at: datetime) -> list[str]:
    """Create a new set of codes, which replaces the last one. The session must be at aal2.

    Raises RecoveryCodesDisabled, RecoveryCodesNeedFactor or RecoveryCodesNeedAal2.
    """
    check_enabled()
    codes = generate()
    with transaction.atomic(durable=True):
        locked = locks.lock_signed_in_user(signed_in)
        if not locked.user.has_verified_factor:
            raise errors.RecoveryCodesNeedFactor
        aal.check_aal(locked, error=errors.RecoveryCodesNeedAal2)
        RecoveryCode.objects.filter(user_id=user.id).delete_rows()
        RecoveryCode.objects.bulk_create(
            RecoveryCode(user_id=user.id, code_hash=hash_code(code, user_id=user.id), created_at=at) for code in codes
        )
        audit.record(audit.Action.RECOVERY_CODES_CREATED, actor=user, caller=caller, at=at)
    return codes


def count_remaining(user: UserRecord) -> int:
    """The number of codes that are left. Raises RecoveryCodesDisabled."""
    check_enabled()
    return RecoveryCode.objects.filter(user_id=user.id).count()


@sign_in_metrics.measure_sign_in("mfa", user_id=lambda result: result.user.id)
def verify(signed_in: SignedInUser, user: UserRecord, *, code: str, caller: Caller, at: datetime) -> StepUpResult:
    """Use up a code and step up the session.

    Raises FactorCodeMissing, RecoveryCodesDisabled, RecoveryCodeInvalid, and RequestRateExceeded after too many wrong
    codes.
    """
    caller.audit.account = user
    if not code:
        raise errors.FactorCodeMissing
    check_enabled()
    if signed_in.session is None:
        raise UnexpectedFailure("Cannot read SessionId claim as UUID")
    digest = hash_code(code, user_id=user.id)
    with (
        verification.limit_attempts(user.id, METHOD),
        failed_attempts.recorded(user.id, errors.RecoveryCodeInvalid, at=at),
    ):
        if failed_attempts.is_refused(user.id, caller=caller, by_second_factor=True, session_id=signed_in.session.id):
            raise errors.RecoveryCodeInvalid
        return verification.complete_step_up(
            signed_in,
            method=METHOD,
            factor_id=None,
            redeem=lambda locked: _redeem(locked, user, digest, caller=caller, at=at),
            caller=caller,
            at=at,
        )


def check_enabled() -> None:
    """Raises RecoveryCodesDisabled."""
    if not conf.current().mfa.recovery_codes_enabled:
        raise errors.RecoveryCodesDisabled


def _redeem(locked: SignedInUser, user: UserRecord, digest: str, *, caller: Caller, at: datetime) -> None:
    # A code replaces a verified factor, so it is worth nothing without one.
    if not locked.user.has_verified_factor:
        raise errors.RecoveryCodeInvalid
    if not RecoveryCode.objects.filter(user_id=user.id, code_hash=digest).delete_rows():
        raise errors.RecoveryCodeInvalid
    left = RecoveryCode.objects.filter(user_id=user.id).count()
    audit.record(audit.Action.RECOVERY_CODE_USED, actor=user, caller=caller, at=at, traits={"remaining": left})
    if user.email:
        messaging.send(notification_emails.recovery_code_used(user, remaining=left))


def _generate_one() -> str:
    characters = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    return "-".join(characters[start : start + _GROUP] for start in range(0, _LENGTH, _GROUP))
