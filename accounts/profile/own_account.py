"""The account as a whole, for its user: a copy of the personal data, and the deletion of the account."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from accounts import errors as account_errors
from accounts.profile import errors, proofs
from accounts.users import deletion
from accounts.users.records import UserRecord
from authsvc import audit, operator_access, personal_data
from authsvc.api.renderers import rfc3339
from authsvc.caller import Caller
from authsvc.errors import RequestRateExceeded
from authsvc.personal_data import DataSubject, Row
from authsvc.security import rate_limits
from tokens.sessions import aal, locks
from tokens.sessions.users import EPOCH, SignedInUser

RECENT = timedelta(minutes=10)
"""The time after a sign-in or second factor in which the deletion of the account needs no other proof."""
_BUCKET = "PersonalDataExport"
_MAX_EXPORTS = 3
"""Exports of a user at once, and as many more in each day."""
_PERIOD = timedelta(days=1)
_OPERATOR_TABLES = frozenset({"operator_notes", "impersonation_links"})
"""Tables with the work of operators, which they export on request."""
_OWN_KEYS = ("action", "log_type")


def export(signed_in: SignedInUser, user: UserRecord, *, caller: Caller, at: datetime) -> str:
    """A copy of the user's personal data as a JSON document, without secrets and without data of operators.

    Raises InsufficientAal, and RequestRateExceeded after too many exports.
    """
    aal.check_aal(signed_in, error=errors.InsufficientAal)
    wait = rate_limits.consume(
        bucket=_BUCKET,
        key=str(user.id),
        burst=_MAX_EXPORTS,
        per_second=_MAX_EXPORTS / _PERIOD.total_seconds(),
        life=_PERIOD,
    )
    if wait is not None:
        raise RequestRateExceeded(retry_after=wait)
    data_subject = DataSubject(id=user.id, addresses=frozenset({user.email, user.phone}) - {""})
    with transaction.atomic(durable=True):
        audit.record(audit.Action.PERSONAL_DATA_EXPORTED, actor=user, caller=caller, at=at)
        return "".join(personal_data.render_document(data_subject, _own_tables(data_subject), exported_at=rfc3339(at)))


def is_operator(user: UserRecord) -> bool:
    """True for an account with access to the console, which another operator deletes there."""
    return operator_access.access_of(user.role) is not None


def needs_proof(signed_in: SignedInUser, *, at: datetime) -> bool:
    """True if the last sign-in or second factor of the session is too old to permit the deletion of the account."""
    # The confirmation of a new address proves that address only.
    proven = (entry.at for entry in signed_in.amr if entry.method not in aal.CHANGE_METHODS)
    return at > max(proven, default=EPOCH) + RECENT


def can_prove(user: UserRecord) -> bool:
    """True if the user can prove the identity by a password or a code, and need not sign in again."""
    return proofs.has_password(user) or bool(user.verified_email or (user.phone and user.phone_confirmed_at))


def delete(
    signed_in: SignedInUser,
    user: UserRecord,
    *,
    current_password: str | None,
    nonce: str | None,
    caller: Caller,
    at: datetime,
) -> None:
    """Delete the account of the signed-in user and end all sessions. The audit trail keeps the email address and phone.

    An older session needs the current password, or without a password the nonce of a reauthentication. Raises
    InsufficientAal, OperatorAccount, RecentSignInNeeded and the errors of the proofs.
    """
    aal.check_aal(signed_in, error=errors.InsufficientAal)
    if is_operator(user):
        raise errors.OperatorAccount
    if needs_proof(signed_in, at=at):
        if not can_prove(user):
            raise account_errors.RecentSignInNeeded
        by_password = proofs.has_password(user)
        proofs.check(
            signed_in,
            user,
            nonce=nonce,
            current_password=current_password,
            needs_nonce=not by_password,
            needs_current_password=by_password,
            caller=caller,
            at=at,
        )
    with transaction.atomic(durable=True):
        locks.lock_for_credential_change(signed_in, error=errors.InsufficientAal)
        deletion.delete_locked(user.id, soft=False, actor=user, caller=caller, at=at)


def _own_tables(data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
    for table, rows in personal_data.export_tables(data_subject):
        if table == "audit_log_entries":
            yield table, (_without_others(row, data_subject) for row in rows)
        elif table not in _OPERATOR_TABLES:
            yield table, rows


def _without_others(row: Row, data_subject: DataSubject) -> Row:
    """An audit entry; of an entry whose actor is another person, only the action and its time."""
    payload: Any = row["payload"]
    content = payload if isinstance(payload, dict) else {}
    if content.get("actor_id") == str(data_subject.id) and "impersonator_id" not in content:
        return row
    return {
        "id": row["id"],
        "created_at": row["created_at"],
        "payload": {key: content[key] for key in _OWN_KEYS if key in content},
    }
