"""Verifying a second factor: its challenge is answered, once, and the session is raised."""

from __future__ import annotations

import contextlib
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Least

from accounts.messages import notification_emails
from accounts.mfa import attempt_limits, errors, registry, step_up
from accounts.mfa.factor_types import Answer, Attempt, Kind, Proof
from accounts.mfa.step_up import Verified
from accounts.models import Factor, FactorChallenge, FactorStatus, RecoveryCode
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.errors import UnexpectedFailure
from tokens.sessions import sign_in_metrics
from tokens.sessions.subjects import SignedIn

_LARGEST_SMALLINT = 32_767


@sign_in_metrics.watched("mfa", who=lambda done: done.user.id)
def verify(
    signed_in: SignedIn, user: UserRecord, factor_id: UUID, answer: Answer, *, caller: Caller, at: datetime
) -> Verified:
    """Answer a challenge of a factor; an enrolled one is verified by it.

    Raises the errors of verification in their documented order, RequestRateExceeded after too many wrong codes.
    """
    factor = Factor.objects.filter(id=factor_id, user_id=user.id).first()
    if factor is None:
        raise errors.FactorNotFound
    kind = registry.of(factor.factor_type)
    kind.check_answer(answer)
    if signed_in.session is None:
        raise UnexpectedFailure("Cannot read SessionId claim as UUID")
    session_id = signed_in.session.id
    challenge = _find(factor, answer, session_id=session_id, caller=caller, at=at)
    attempt = Attempt(user=user, factor=factor, challenge=challenge, answer=answer, at=at)
    most = conf.current().codes.max_attempts
    if kind.is_guessable and not _count_attempt(challenge, most=most):
        raise errors.FactorChallengeExpired(challenge.id)
    with attempt_limits.counted(user.id, str(factor.id)) if kind.is_guessable else contextlib.nullcontext():
        proof = kind.prove(attempt)
        return step_up.step_up(
            signed_in,
            method=kind.method,
            factor_id=proof.factor_id,
            take=lambda held: _take(held, attempt, kind, proof, caller=caller),
            caller=caller,
            at=at,
        )


def _find(factor: Factor, answer: Answer, *, session_id: UUID, caller: Caller, at: datetime) -> FactorChallenge:
    challenge = FactorChallenge.objects.filter(id=answer.challenge_id, factor_id=factor.id).first()
    if challenge is None or challenge.session_id not in (None, session_id):
        raise errors.FactorChallengeNotFound
    if challenge.verified_at is not None or _address(challenge.ip_address) != _address(caller.address):
        raise errors.FactorChallengeElsewhere
    if at > challenge.created_at + conf.current().mfa.challenge_expiry:
        FactorChallenge.objects.filter(id=challenge.id).delete_rows()
        raise errors.FactorChallengeExpired(challenge.id)
    return challenge


def _count_attempt(challenge: FactorChallenge, *, most: int) -> bool:
    """Count a response before it is verified; False when there were `most` before (0: no limit). One statement."""
    open_ones = FactorChallenge.objects.filter(id=challenge.id)
    if most:
        open_ones = open_ones.filter(attempts__lt=most)
    return bool(open_ones.update(attempts=Least(F("attempts") + 1, _LARGEST_SMALLINT)))


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    # The database writes some addresses another way.
    return ip_address(text) if text else None


def _take(held: SignedIn, attempt: Attempt, kind: Kind, proof: Proof, *, caller: Caller) -> None:
    """Spend the challenge and write what the proof changes; inside the transaction that raises the session."""
    factor, challenge, at = attempt.factor, attempt.challenge, attempt.at
    locked = Factor.objects.select_for_update().filter(id=factor.id).first()
    if locked is None or locked.phone != factor.phone:  # gone just now, or of another number than the code went to
        raise errors.FactorNotFound
    is_first_use = locked.status == FactorStatus.UNVERIFIED
    is_guarded = held.subject.has_verified_factor
    if is_first_use and is_guarded and not held.is_aal2:
        # Begun before there was a factor, perhaps by somebody who has the password alone.
        raise errors.FactorNeedsAal2
    if is_first_use and not is_guarded:
        # Codes from the time of factors that are gone are not for this one.
        RecoveryCode.objects.filter(user_id=attempt.user.id).delete_rows()
    traits = {
        "factor_id": str(factor.id),
        "challenge_id": str(challenge.id),
        "factor_type": str(factor.factor_type),
    }
    audit.record(audit.Action.FACTOR_VERIFIED, actor=attempt.user, caller=caller, at=at, traits=traits)
    open_one = FactorChallenge.objects.filter(id=challenge.id, verified_at=None)
    # Of answers side by side, the first to come here wins; the others find no open challenge.
    if not (open_one.delete_rows() if kind.forgets_challenges else open_one.update(verified_at=at)):
        raise errors.FactorChallengeElsewhere
    changed = {**proof.settle(locked), "status": FactorStatus.VERIFIED, "updated_at": at}
    Factor.objects.filter(id=factor.id).update(**changed)
    unfinished = Factor.objects.filter(
        user_id=attempt.user.id, factor_type=factor.factor_type, status=FactorStatus.UNVERIFIED
    )
    unfinished.delete_rows()
    if is_first_use and attempt.user.email:
        messaging.send(notification_emails.factor_enrolled(attempt.user, factor_type=factor.factor_type))
