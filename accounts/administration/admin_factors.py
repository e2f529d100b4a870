"""Changes of second factors by administrators, for users who have lost a device or a phone."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors as account_errors
from accounts.administration import errors
from accounts.mfa import enrolment, removal
from accounts.mfa import errors as mfa_errors
from accounts.models import Factor, FactorChallenge, FactorType, User
from accounts.users import identifiers, queries, user_events
from accounts.users.records import FactorRecord, UserRecord
from authsvc import audit
from authsvc.audit import Administrator
from authsvc.caller import Caller


def update(
    user_id: UUID,
    factor_id: UUID,
    *,
    friendly_name: str,
    phone: str,
    actor: Administrator,
    caller: Caller,
    at: datetime,
) -> FactorRecord:
    """Change the name of a factor, or the phone of a phone factor; empty values change nothing. It stays verified.

    Codes that were sent to the former phone become invalid.

    Raises UserNotFound, FactorNotFound, FactorNameTooLong, PhoneInvalid, FactorNameTaken or FactorPhoneTaken.
    """
    try:
        with transaction.atomic(durable=True):
            _lock_user(user_id)
            factor = _find(queries.require(user_id), factor_id)
            columns = _columns(factor, friendly_name=friendly_name, phone=phone)
            if not Factor.objects.filter(id=factor_id, user_id=user_id).update(**columns, updated_at=at):
                raise mfa_errors.FactorNotFound
            if columns.get("phone", factor.phone) != factor.phone:
                # After the update, which has waited for a challenge that another request is creating.
                FactorChallenge.objects.filter(factor_id=factor_id, verified_at=None).delete_rows()
            before = {"friendly_name": factor.friendly_name, "phone": factor.phone}
            traits = {**_traits(user_id, factor), "changes": audit.describe_changes(before, {**before, **columns})}
            audit.record(audit.Action.FACTOR_UPDATED, actor=actor, caller=caller, at=at, traits=traits)
            return _find(queries.require(user_id), factor_id)
    except IntegrityError as error:
        diagnostics: Any = getattr(error.__cause__, "diag", None)
        if diagnostics and (diagnostics.constraint_name or "").endswith("unique_phone_factor_per_user"):
            raise mfa_errors.FactorPhoneTaken from None
        raise mfa_errors.FactorNameTaken(friendly_name) from None


def remove(user_id: UUID, factor_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> FactorRecord:
    """Remove a factor and lower the sessions that it has stepped up; return the removed factor.

    Raises UserNotFound or FactorNotFound.
    """
    user = queries.require(user_id)
    factor = _find(user, factor_id)
    with transaction.atomic(durable=True):
        _lock_user(user_id)
        if not removal.delete_factor(user_id, factor_id):
            raise mfa_errors.FactorNotFound
        traits = _traits(user_id, factor)
        audit.record(audit.Action.FACTOR_DELETED, actor=actor, caller=caller, at=at, traits=traits)
        user_events.record_factor_removal(user_id, factor, at=at)
    return factor


def reset(user_id: UUID, *, actor: Administrator, caller: Caller, at: datetime) -> int:
    """Remove all factors and recovery codes and lower every session; return the number of removed factors.

    Raises UserNotFound or NoFactors.
    """
    with transaction.atomic(durable=True):
        _lock_user(user_id)
        user = queries.require(user_id)
        if not user.factors:
            raise errors.NoFactors
        for factor in user.factors:
            removal.delete_factor(user_id, UUID(factor.id))
            traits = _traits(user_id, factor)
            audit.record(audit.Action.FACTOR_DELETED, actor=actor, caller=caller, at=at, traits=traits)
            user_events.record_factor_removal(user_id, factor, at=at)
    return len(user.factors)


def _columns(factor: FactorRecord, *, friendly_name: str, phone: str) -> dict[str, str]:
    columns = {}
    if len(friendly_name) > enrolment.MAX_NAME_LENGTH:
        raise mfa_errors.FactorNameTooLong
    if friendly_name:
        columns["friendly_name"] = friendly_name
    if phone and factor.factor_type == FactorType.PHONE:
        columns["phone"] = identifiers.phone(phone)
    return columns


def _traits(user_id: UUID, factor: FactorRecord) -> dict[str, Any]:
    return {
        "user_id": str(user_id),
        "factor_id": factor.id,
        "factor_type": factor.factor_type,
        "factor_status": factor.status,
    }


def _lock_user(user_id: UUID) -> None:
    """Lock the user, so that no factor is verified, enrolled or removed until the end of the transaction."""
    if not User.objects.lock(user_id):
        raise account_errors.UserNotFound


def _find(user: UserRecord, factor_id: UUID) -> FactorRecord:
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise mfa_errors.FactorNotFound
