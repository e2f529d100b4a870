"""What administrators do to the second factors of others, who have lost a device or a number."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts import errors, identifiers
from accounts.models import Factor, FactorType
from accounts.records import FactorRecord, UserRecord
from accounts.services import directory
from authsvc.core import audit
from authsvc.core.audit import Administrator
from authsvc.core.caller import Caller
from tokens.services import sessions

_METHODS = {FactorType.TOTP: "totp", FactorType.PHONE: "mfa/phone", FactorType.WEBAUTHN: "mfa/webauthn"}


def change(
    user_id: UUID,
    factor_id: UUID,
    *,
    friendly_name: str,
    phone: str,
    actor: Administrator,
    caller: Caller,
    at: datetime,
) -> FactorRecord:
    """Give a factor another name, a phone another number; what is empty stays, and so does what was proved.

    Raises UserNotFound, FactorNotFound, PhoneInvalid, FactorNameTaken or FactorPhoneTaken.
    """
    factor = _find(directory.find(user_id), factor_id)
    columns: dict[str, Any] = {"updated_at": at}
    if friendly_name:
        columns["friendly_name"] = friendly_name
    if phone and factor.factor_type == FactorType.PHONE:
        columns["phone"] = identifiers.phone(phone)
    traits = {"user_id": str(user_id), "factor_id": factor.id, "factor_type": factor.factor_type}
    try:
        with transaction.atomic(durable=True):
            if not Factor.objects.filter(id=factor_id, user_id=user_id).update(**columns):
                raise errors.FactorNotFound
            audit.record(audit.Action.FACTOR_UPDATED, actor=actor, caller=caller, at=at, traits=traits)
            return _find(directory.find(user_id), factor_id)
    except IntegrityError as error:
        said: Any = getattr(error.__cause__, "diag", None)
        if said and (said.constraint_name or "").endswith("unique_phone_factor_per_user"):
            raise errors.FactorPhoneTaken from None
        raise errors.FactorNameTaken(friendly_name) from None


def remove(user_id: UUID, factor_id: UUID, *, caller: Caller, at: datetime) -> FactorRecord:
    """Take a factor away and what it has proved: its sessions go back to one factor. The factor as it was.

    Raises UserNotFound or FactorNotFound.
    """
    user = directory.find(user_id)
    factor = _find(user, factor_id)
    traits = {"user_id": str(user_id), "factor_id": factor.id}
    with transaction.atomic(durable=True):
        if not Factor.objects.filter(id=factor_id, user_id=user_id)._raw_delete("default"):
            raise errors.FactorNotFound
        audit.record(audit.Action.FACTOR_DELETED, actor=user, caller=caller, at=at, traits=traits)
        sessions.step_down(user_id, factor_id=factor_id, method=_METHODS[FactorType(factor.factor_type)])
    return factor


def _find(user: UserRecord, factor_id: UUID) -> FactorRecord:
    for factor in user.factors:
        if factor.id == str(factor_id):
            return factor
    raise errors.FactorNotFound
