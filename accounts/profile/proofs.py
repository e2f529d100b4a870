"""Proofs that a request comes from the user: the current password, and the nonce of a reauthentication."""

from __future__ import annotations

from datetime import datetime

from accounts import errors as account_errors
from accounts.passwords import hashing
from accounts.profile import errors, reauthentication
from accounts.users import failed_attempts
from accounts.users.records import UserRecord
from authsvc import audit
from authsvc.caller import Caller
from tokens.sessions.users import SignedInUser


def has_password(user: UserRecord) -> bool:
    """True for an account whose password is known. Raises UnexpectedFailure if its hash cannot be decrypted."""
    return hashing.stored_hash(user) not in (None, hashing.NO_PASSWORD)


def check(
    signed_in: SignedInUser,
    user: UserRecord,
    *,
    nonce: str | None,
    current_password: str | None,
    needs_nonce: bool,
    needs_current_password: bool,
    caller: Caller,
    at: datetime,
) -> None:
    """Verify the proofs that are needed. Wrong ones count as failed attempts and are audited.

    Raises ReauthenticationNeeded, CurrentPasswordRequired, CurrentPasswordInvalid and the errors of a wrong nonce. Call
    it outside of transactions.
    """
    if not needs_nonce and not needs_current_password:
        return
    session_id = signed_in.session.id if signed_in.session else None
    refused = failed_attempts.is_refused(user.id, caller=caller, session_id=session_id)
    wrong = (errors.NonceInvalid, errors.CurrentPasswordInvalid, account_errors.CodeExpired)
    try:
        with failed_attempts.recorded(user.id, *wrong, at=at):
            if needs_nonce:
                if not nonce:
                    raise errors.ReauthenticationNeeded
                reauthentication.redeem_code(user, nonce=nonce, refused=refused, at=at)
            if needs_current_password:
                if not current_password:
                    raise errors.CurrentPasswordRequired
                if not hashing.verify_password(current_password, hashing.stored_hash(user)) or refused:
                    raise errors.CurrentPasswordInvalid
    except wrong as error:
        action = audit.Action.CHANGE_REFUSED
        audit.record_refusal(action, actor=user, error_code=error.error_code, caller=caller, at=at)
        raise
