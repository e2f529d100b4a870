"""Completes a verification: redeems the proof and steps up the session, in one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.users import queries
from accounts.users.records import UserRecord
from authsvc.caller import Caller
from tokens.sessions import lifecycle
from tokens.sessions import step_up as session_step_up
from tokens.sessions.errors import TooManyConcurrentRefreshes, UserNotFoundForToken
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.users import SignedInUser

_TIMEOUT = 5.0
"""Seconds that a verification waits for its session, while refreshes hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpResult:
    user: UserRecord
    """The user after the verification."""
    tokens: TokenPair


def complete(
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
    transaction is rolled back and repeated. Raises the errors of `redeem`, SessionNotFound and
    TooManyConcurrentRefreshes.
    """
    deadline = time.monotonic() + _TIMEOUT
    while time.monotonic() < deadline:
        with transaction.atomic(durable=True):
            # One at a time per user, because each step-up ends other sessions of the user.
            redeem(lifecycle.lock_signed_in_user(signed_in))
            user = queries.get(signed_in.user.id)
            if user is None:
                raise UserNotFoundForToken
            tokens = session_step_up.step_up(
                signed_in, user=user, method=method, factor_id=factor_id, caller=caller, at=at
            )
            if tokens is None:
                transaction.set_rollback(True)
        if tokens is not None:
            return StepUpResult(user=user, tokens=tokens)
        time.sleep(random.uniform(0.010, 0.029))  # noqa: S311  (spreads out waiters)
    raise TooManyConcurrentRefreshes
