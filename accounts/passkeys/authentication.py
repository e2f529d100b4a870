"""Sign-in by passkey; the credential identifies the user."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from accounts.models import CeremonyType, Passkey, User
from accounts.passkeys import challenges, errors
from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from accounts.users import identifiers, queries
from accounts.users.records import UserRecord
from accounts.webauthn import ceremonies, verification, webauthn_responses
from accounts.webauthn.webauthn_responses import Assertion
from authsvc import audit
from authsvc.caller import Caller
from tokens.sessions import lifecycle, sign_in_metrics
from tokens.sessions.errors import UserBanned
from tokens.sessions.issuing import token_transaction
from tokens.sessions.lifecycle import TokenPair

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeySignIn:
    user: UserRecord
    tokens: TokenPair


def start(*, at: datetime) -> StartedCeremony:
    """Start a sign-in by passkey. Raises RelyingPartyUnknown."""
    challenges.require_relying_party()
    return challenges.store(ceremonies.request(), type=CeremonyType.AUTHENTICATION, user_id=None, at=at)


@sign_in_metrics.measure_sign_in("passkey", user_id=lambda result: result.user.id)
def complete(
    response: CredentialResponse,
    *,
    caller: Caller,
    at: datetime,
    roles: Collection[str] | None = None,
    not_after: datetime | None = None,
) -> PasskeySignIn:
    """Sign in the user of the credential. With `roles`, users of other roles count as unknown.

    `not_after` ends the session at that time. Raises, in this order:

    RelyingPartyUnknown, the errors of `challenges.consume`, CredentialMalformed, CredentialNotVerified,
    EmailNotConfirmedForPasskey, PhoneNotConfirmedForPasskey, UserBanned.
    """
    challenges.require_relying_party()
    state = challenges.consume(response, type=CeremonyType.AUTHENTICATION, user_id=None, at=at)
    try:
        assertion = webauthn_responses.parse_assertion(response.credential)
    except webauthn_responses.MalformedCredential:
        raise errors.CredentialMalformed from None
    user, passkey = _find(assertion)
    caller.audit.account = user
    try:
        sign_count = verification.verify_assertion(
            assertion,
            state=state,
            user_id=user.id,
            public_key=bytes(passkey.public_key),
            is_backup_eligible=passkey.backup_eligible,
        )
    except verification.CredentialRejected:
        raise errors.CredentialNotVerified from None
    if roles is not None and user.role not in roles:
        raise errors.CredentialNotVerified
    _check(user, at=at)
    if not verification.is_sign_count_valid(sign_count, previous=passkey.sign_count):
        logger.warning(
            "a passkey may have been cloned: its sign count did not grow", extra={"passkey_id": str(passkey.id)}
        )
        raise errors.CredentialNotVerified
    with token_transaction(caller):
        User.objects.filter(id=user.id).update(last_sign_in_at=at, updated_at=at)
        unchanged = Passkey.objects.filter(id=passkey.id, user_id=user.id, sign_count=passkey.sign_count)
        if not unchanged.update(sign_count=sign_count, last_used_at=at, updated_at=at):
            raise errors.CredentialNotVerified  # removed or used since the first read
        user = dataclasses.replace(user, last_sign_in_at=at, updated_at=at)
        tokens = lifecycle.start_session(user=user, method="passkey", caller=caller, at=at, not_after=not_after)
        traits = {"passkey_id": str(passkey.id)}
        audit.record(audit.Action.LOGIN, actor=user, caller=caller, at=at, traits=traits)
    return PasskeySignIn(user=user, tokens=tokens)


def _find(assertion: Assertion) -> tuple[UserRecord, Passkey]:
    """The user and the passkey of an assertion. Raises CredentialNotVerified if one does not exist."""
    try:
        user_id = identifiers.uuid((assertion.user_handle or b"").decode())
    except UnicodeDecodeError:
        user_id = None
    passkey = Passkey.objects.filter(user_id=user_id, credential_id=assertion.raw_id).first() if user_id else None
    user = queries.get(passkey.user_id) if passkey else None
    if passkey is None or user is None or user.deleted_at is not None:
        raise errors.CredentialNotVerified
    return user, passkey


def _check(user: UserRecord, *, at: datetime) -> None:
    if user.email and user.email_confirmed_at is None:
        raise errors.EmailNotConfirmedForPasskey
    if user.phone and user.phone_confirmed_at is None:
        raise errors.PhoneNotConfirmedForPasskey
    if user.is_banned(at):
        raise UserBanned
