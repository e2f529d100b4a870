"""Challenging a second factor: the question that a verification answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from accounts.mfa import errors, registry
from accounts.models import Factor, FactorChallenge, FactorStatus, FactorType
from accounts.users.records import UserRecord
from authsvc import audit, conf, messaging
from authsvc.caller import Caller
from tokens.sessions.subjects import SignedIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenged:
    id: UUID
    factor_type: str
    expires_at: datetime
    shown: Mapping[str, Any] = field(repr=False)
    """What else the client is told."""


def open(
    signed_in: SignedIn, user: UserRecord, factor_id: UUID, *, channel: str = "", caller: Caller, at: datetime
) -> Challenged:
    """Challenge a factor of the user, to be answered in the same session; several challenges may be open at once.

    Raises FactorNotFound and what its kind has against it: a switch that is off, a message too soon after another.
    """
    known = next((each for each in user.factors if each.id == str(factor_id)), None)
    if known is None:
        raise errors.FactorNotFound
    kind = registry.of(known.factor_type)
    kind.check_verification()
    kind.admit(user, phone=known.phone or "", channel=channel)
    with transaction.atomic(durable=True):
        same = Factor.objects.filter(id=factor_id, user_id=user.id, phone=known.phone)
        factor = same.select_for_update().first()
        if factor is None:  # gone just now, or of another number, which was not asked about
            raise errors.FactorNotFound
        challenge_id = uuid4()
        opened = kind.open(user, factor, challenge_id=challenge_id, channel=channel, at=at)
        FactorChallenge.objects.create(
            id=challenge_id,
            factor_id=factor.id,
            created_at=at,
            ip_address=caller.address or None,
            session_id=signed_in.session.id if signed_in.session else None,
            otp_code=opened.otp_code,
            web_authn_session_data=opened.session_data,
        )
        Factor.objects.filter(id=factor.id).update(last_challenged_at=at, updated_at=at)
        if factor.factor_type != FactorType.WEBAUTHN:
            traits = {"factor_id": str(factor.id), "factor_status": str(FactorStatus(factor.status))}
            audit.record(audit.Action.CHALLENGE_CREATED, actor=user, caller=caller, at=at, traits=traits)
        if opened.message is not None:
            messaging.send(opened.message)
    expires_at = at + conf.current().mfa.challenge_expiry
    return Challenged(id=challenge_id, factor_type=factor.factor_type, expires_at=expires_at, shown=opened.shown)
