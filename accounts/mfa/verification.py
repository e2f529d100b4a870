"""Verification of second factors: checks the response to a challenge once, limits wrong codes, steps up the session."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Least

from accounts import errors as account_errors
from accounts.messages import notification_emails
from accounts.mfa import errors, registry
from accounts.mfa.factor_types import FactorHandler, FactorResponse, Proof, VerificationAttempt
from accounts.models import Factor, FactorChallenge, FactorStatus, RecoveryCode
from accounts.users import attempt_hooks, failed_attempts, queries, user_events
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from authsvc.errors import ApiError, RequestRateExceeded, UnexpectedFailure
from authsvc.events import EventType
from authsvc.observability import metrics
from authsvc.security import rate_limits
from tokens.sessions import aal, issuing, locks, sign_in_metrics, step_up
from tokens.sessions.errors import TooManyConcurrentRefreshes, UserBanned, UserNotFoundForToken
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser

_LARGEST_SMALLINT = 32_767
# Seconds that a verification waits for its session, while refreshes hold it.
_TIMEOUT = 5.0
_BUCKET = "WrongFactorCode"
_PERIOD = timedelta(hours=1)
_LIFE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpResult:
    user: UserRecord
    """The user after the verification."""
    tokens: TokenPair


@sign_in_metrics.measure_sign_in("mfa", user_id=lambda result: result.user.id)
def verify(
    signed_in: SignedInUser,
    user: UserRecord,
    factor_id: UUID,
    response: FactorResponse,
    *,
    caller: Caller,
    at: datetime,
) -> StepUpResult:
    """Verify the response to a challenge. The first verification completes the enrolment of the factor.

    Raises the errors of verification in their documented order, RequestRateExceeded after too many wrong codes.
    """
    caller.audit.account = user
    factor = Factor.objects.filter(id=factor_id, user_id=user.id).first()
    if factor is None:
        raise errors.FactorNotFound
    handler = registry.handler_for(factor.factor_type)
    handler.check_response(response)
    if signed_in.session is None:
        raise UnexpectedFailure("Cannot read SessionId claim as UUID")
    session_id = signed_in.session.id
    challenge = _find(factor, response, session_id=session_id, caller=caller, at=at)
    attempt = VerificationAttempt(user=user, factor=factor, challenge=challenge, response=response, at=at)
    limit = conf.current().codes.max_attempts
    if handler.is_guessable and not _count_attempt(challenge, limit=limit):
        raise errors.FactorChallengeExpired(challenge.id)
    if not handler.is_guessable:
        return _complete(signed_in, attempt, handler, handler.verify(attempt), caller=caller)
    with limit_attempts(user.id, str(factor.id)):
        if factor.status != FactorStatus.VERIFIED:  # guessing the secret of an enrolment gives access to nothing
            return _complete(signed_in, attempt, handler, _verify_code(attempt, handler, caller=caller), caller=caller)
        with failed_attempts.recorded(user.id, handler.wrong_code, account_errors.CodeExpired, at=at):
            refused = failed_attempts.is_refused(
                user.id, caller=caller, by_second_factor=True, session_id=signed_in.session.id
            )
            proof = _verify_code(attempt, handler, caller=caller)
            if refused:
                raise handler.wrong_code
            return _complete(signed_in, attempt, handler, proof, caller=caller)


def _verify_code(attempt: VerificationAttempt, handler: FactorHandler, *, caller: Caller) -> Proof:
    """Verify a code and ask the hook about the result. Raises the errors of the handler and of a hook that rejects."""
    try:
        proof = handler.verify(attempt)
    except (handler.wrong_code, account_errors.CodeExpired):
        counted = (ApiError,) if attempt.factor.status == FactorStatus.VERIFIED else ()
        with failed_attempts.recorded(attempt.user.id, *counted, at=attempt.at):
            _ask_hook(attempt, is_valid=False, caller=caller)
        raise
    _ask_hook(attempt, is_valid=True, caller=caller)
    return proof


def _ask_hook(attempt: VerificationAttempt, *, is_valid: bool, caller: Caller) -> None:
    if attempt_hooks.hooks is not None:
        attempt_hooks.hooks.check_factor(
            attempt.user.id,
            attempt.factor.id,
            factor_type=str(attempt.factor.factor_type),
            is_valid=is_valid,
            caller=caller,
        )


def _complete(
    signed_in: SignedInUser, attempt: VerificationAttempt, handler: FactorHandler, proof: Proof, *, caller: Caller
) -> StepUpResult:
    return complete_step_up(
        signed_in,
        method=handler.method,
        factor_id=proof.factor_id,
        redeem=lambda locked: _redeem(locked, attempt, handler, proof, caller=caller),
        caller=caller,
        at=attempt.at,
    )


@contextlib.contextmanager
def limit_attempts(user_id: UUID, factor: str) -> Iterator[None]:
    """Count the body as a wrong code for this factor of the user, unless it ends without an exception.

    Allows as many wrong codes at once as a one-time code allows, and as many more in each hour. The attempt is counted
    before the code is verified, so that concurrent attempts cannot exceed the limit. Raises RequestRateExceeded.
    """
    key = f"{user_id}/{factor}"
    limit = conf.current().codes.max_attempts
    if not limit:
        yield
        return
    wait = rate_limits.consume(
        bucket=_BUCKET, key=key, burst=limit, per_second=limit / _PERIOD.total_seconds(), life=_LIFE
    )
    if wait is not None:
        metrics.LIMIT_REFUSALS.labels("wrong_codes").inc()
        error = RequestRateExceeded()
        error.retry_after = wait
        raise error
    yield
    rate_limits.refund(bucket=_BUCKET, key=key)


def complete_step_up(
    signed_in: SignedInUser,
    *,
    method: str,
    factor_id: UUID | None,
    redeem: Callable[[SignedInUser], None],
    caller: Caller,
    at: datetime,
) -> StepUpResult:
    """Call `redeem`, which uses up the proof or raises, and step up the session in the same transaction.

    `redeem` takes the sign-in as read under the lock of the user's row. While a refresh holds the session, the
    transaction is rolled back and repeated. Raises the errors of `redeem`, SessionNotFound, UserBanned and
    TooManyConcurrentRefreshes.
    """
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        with issuing.token_transaction(caller):
            # One at a time per user, because each step-up ends other sessions of the user.
            redeem(locks.lock_signed_in_user(signed_in))
            user = queries.get(signed_in.user.id)
            if user is None:
                raise UserNotFoundForToken
            if user.is_banned(at):
                raise UserBanned
            tokens = step_up.step_up(signed_in, user=user, method=method, factor_id=factor_id, caller=caller, at=at)
            if tokens is None:
                transaction.set_rollback(True)
        if tokens is not None:
            return StepUpResult(user=user, tokens=tokens)
        if not issuing.wait_for_lock(random.uniform(0.010, 0.029)):  # noqa: S311  (spreads out waiters)
            break
    raise TooManyConcurrentRefreshes


def _find(
    factor: Factor, response: FactorResponse, *, session_id: UUID, caller: Caller, at: datetime
) -> FactorChallenge:
    challenge = FactorChallenge.objects.filter(id=response.challenge_id, factor_id=factor.id).first()
    if challenge is None or challenge.session_id not in (None, session_id):
        raise errors.FactorChallengeNotFound
    if challenge.verified_at is not None or _address(challenge.ip_address) != _address(caller.address):
        raise errors.FactorChallengeAddressMismatch
    if at > challenge.created_at + conf.current().mfa.challenge_expiry:
        FactorChallenge.objects.filter(id=challenge.id).delete_rows()
        raise errors.FactorChallengeExpired(challenge.id)
    return challenge


def _count_attempt(challenge: FactorChallenge, *, limit: int) -> bool:
    """Count a response before it is verified; False when there were `limit` before (0: no limit). One statement."""
    challenges = FactorChallenge.objects.filter(id=challenge.id)
    if limit:
        challenges = challenges.filter(attempts__lt=limit)
    return bool(challenges.update(attempts=Least(F("attempts") + 1, _LARGEST_SMALLINT)))


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    # The database may write an address in another form.
    return ip_address(text) if text else None


def _redeem(
    locked: SignedInUser, attempt: VerificationAttempt, handler: FactorHandler, proof: Proof, *, caller: Caller
) -> None:
    """Use up the challenge and store the changes of the proof. Must run inside the transaction of the step-up."""
    factor, challenge, at = attempt.factor, attempt.challenge, attempt.at
    locked_factor = Factor.objects.select_for_update().filter(id=factor.id).first()
    # It may have been deleted, or got another phone, since the first read.
    if locked_factor is None or locked_factor.phone != factor.phone:
        raise errors.FactorNotFound
    is_first_use = locked_factor.status == FactorStatus.UNVERIFIED
    if is_first_use:
        # The enrolment may have begun before there was a verified factor, perhaps with a stolen password alone.
        aal.check_aal(locked, error=errors.FactorNeedsAal2)
    if is_first_use and not locked.user.has_verified_factor:
        # Recovery codes of factors that no longer exist must not replace this one.
        RecoveryCode.objects.filter(user_id=attempt.user.id).delete_rows()
        # A change that began without a factor must not be completed from now on, perhaps by another person.
        queries.withdraw_pending_changes(attempt.user.id)
    traits = {
        "factor_id": str(factor.id),
        "challenge_id": str(challenge.id),
        "factor_type": str(factor.factor_type),
    }
    audit.record(audit.Action.FACTOR_VERIFIED, actor=attempt.user, caller=caller, at=at, traits=traits)
    open_challenge = FactorChallenge.objects.filter(id=challenge.id, verified_at=None)
    # Of concurrent responses, the first one here wins; the others find no open challenge.
    if not (open_challenge.delete_rows() if handler.deletes_used_challenges else open_challenge.update(verified_at=at)):
        raise errors.FactorChallengeAddressMismatch
    changed = {**proof.changes(locked_factor), "status": FactorStatus.VERIFIED, "updated_at": at}
    Factor.objects.filter(id=factor.id).update(**changed)
    if is_first_use:
        user_events.record_factor(
            EventType.FACTOR_ENROLLED,
            attempt.user.id,
            factor_id=str(factor.id),
            factor_type=str(factor.factor_type),
            friendly_name=factor.friendly_name or "",
            at=at,
        )
    unfinished = Factor.objects.filter(
        user_id=attempt.user.id, factor_type=factor.factor_type, status=FactorStatus.UNVERIFIED
    )
    unfinished.delete_rows()
    if is_first_use and attempt.user.email:
        messaging.send(notification_emails.factor_enrolled(attempt.user, factor_type=factor.factor_type))
