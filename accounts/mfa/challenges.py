"""Challenges of second factors, which a verification responds to."""

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
from tokens.sessions.users import SignedInUser


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedChallenge:
    id: UUID
    factor_type: str
    expires_at: datetime
    members: Mapping[str, Any] = field(repr=False)
    """Further members of the response."""


def create(
    signed_in: SignedInUser, user: UserRecord, factor_id: UUID, *, channel: str = "", caller: Caller, at: datetime
) -> CreatedChallenge:
    """Challenge a factor of the user. The response must come from the same session; several challenges may be open.

    Raises FactorNotFound and the errors of the factor's handler: a disabled factor type, a message sent too recently.
    """
    record = next((factor for factor in user.factors if factor.id == str(factor_id)), None)
    if record is None:
        raise errors.FactorNotFound
    handler = registry.handler_for(record.factor_type)
    handler.require_verification_enabled()
    handler.check_challenge_allowed(user, phone=record.phone or "", channel=channel, caller=caller)
    with (
        messaging.reserved("sms" if record.phone else None),
        transaction.atomic(durable=True),
    ):
        rows = Factor.objects.filter(id=factor_id, user_id=user.id, phone=record.phone)
        factor = rows.select_for_update().first()
        if factor is None:  # deleted or changed since the check above
            raise errors.FactorNotFound
        challenge_id = uuid4()
        new = handler.create_challenge(user, factor, challenge_id=challenge_id, channel=channel, at=at)
        FactorChallenge.objects.create(
            id=challenge_id,
            factor_id=factor.id,
            created_at=at,
            ip_address=caller.address or None,
            session_id=signed_in.session.id if signed_in.session else None,
            otp_code=new.otp_code,
            web_authn_session_data=new.session_data,
        )
        Factor.objects.filter(id=factor.id).update(last_challenged_at=at, updated_at=at)
        if factor.factor_type != FactorType.WEBAUTHN:
            traits = {"factor_id": str(factor.id), "factor_status": str(FactorStatus(factor.status))}
            audit.record(audit.Action.CHALLENGE_CREATED, actor=user, caller=caller, at=at, traits=traits)
        if new.message is not None:
            messaging.send(new.message)
    expires_at = at + conf.current().mfa.challenge_expiry
    return CreatedChallenge(id=challenge_id, factor_type=factor.factor_type, expires_at=expires_at, members=new.members)
