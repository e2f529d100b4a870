"""The end of every verification: what was proved is taken, and the session is raised, in one transaction."""

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
from tokens import errors
from tokens.sessions import lifecycle
from tokens.sessions import step_up as elevation
from tokens.sessions.lifecycle import TokenPair
from tokens.sessions.subjects import SignedIn

_PATIENCE = 5.0
"""Seconds after which a verification that never got hold of its session is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    user: UserRecord
    """As it stands afterwards."""
    tokens: TokenPair


def step_up(
    signed_in: SignedIn,
    *,
    method: str,
    factor_id: UUID | None,
    take: Callable[[SignedIn], None],
    caller: Caller,
    at: datetime,
) -> Verified:
    """Do `take`, which spends the proof or raises, and raise the session; both or nothing.

    `take` is given the sign-in as it stands, with the user whose factors nobody changes meanwhile.

    While a refresh holds the session, nothing is kept and all is tried again a moment later. Raises what `take` raises,
    SessionNotFound and TooManyConcurrentRefreshes.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with transaction.atomic(durable=True):
            # One at a time for each user: each ends other sessions, among them that of the other.
            take(lifecycle.hold(signed_in))
            user = queries.get(signed_in.subject.id)
            if user is None:
                raise errors.UserNotFoundForToken
            tokens = elevation.step_up(
                signed_in, subject=user, method=method, factor_id=factor_id, caller=caller, at=at
            )
            if tokens is None:
                transaction.set_rollback(True)
        if tokens is not None:
            return Verified(user=user, tokens=tokens)
        time.sleep(random.uniform(0.010, 0.029))  # noqa: S311  (spreads out waiters)
    raise errors.TooManyConcurrentRefreshes
