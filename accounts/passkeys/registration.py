"""Registration of passkeys: options for the browser, then the new credential."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from accounts.models import CeremonyType, Passkey
from accounts.passkeys import challenges, errors
from accounts.passkeys.challenges import CredentialResponse, StartedCeremony
from accounts.passwords import change_proofs
from accounts.users import user_events
from accounts.users.records import UserRecord
from accounts.webauthn import authenticators, ceremonies, verification, webauthn_responses
from accounts.webauthn.ceremonies import Descriptor
from authsvc import audit, conf
from authsvc.caller import Caller
from authsvc.events import EventType
from tokens.sessions import aal, locks
from tokens.sessions.users import SignedInUser


def check_allowed(signed_in: SignedInUser) -> None:
    """Raises PasskeysOfSsoUser or PasskeysNeedAal2."""
    if signed_in.user.is_sso_user:
        raise errors.PasskeysOfSsoUser
    aal.check_aal(signed_in, error=errors.PasskeysNeedAal2)


def start(signed_in: SignedInUser, user: UserRecord, *, at: datetime) -> StartedCeremony:
    """Start the registration of a passkey.

    Raises the errors of `check_allowed`, RecentSignInNeeded, TooManyPasskeys or RelyingPartyUnknown.
    """
    check_allowed(signed_in)
    change_proofs.check_new_sign_in_method(signed_in, at=at)
    credential_ids = [
        bytes(value) for value in Passkey.objects.filter(user_id=user.id).values_list("credential_id", flat=True)
    ]
    if len(credential_ids) >= conf.current().passkeys.max_per_user:
        raise errors.TooManyPasskeys
    challenges.require_relying_party()
    name = user.email or user.phone
    ceremony = ceremonies.creation(
        user_id=user.id,
        name=name,
        display_name=user.name or name,
        exclude=[Descriptor(id=credential_id) for credential_id in credential_ids],
        discoverable=True,
    )
    return challenges.store(ceremony, type=CeremonyType.REGISTRATION, user_id=user.id, at=at)


def complete(
    signed_in: SignedInUser, user: UserRecord, response: CredentialResponse, *, caller: Caller, at: datetime
) -> Passkey:
    """Verify and store the new credential. Raises the errors of `check_allowed` and of the response, in this order:

    RecentSignInNeeded, RelyingPartyUnknown, those of `challenges.consume`, CredentialMalformed, CredentialNotVerified,
    TooManyPasskeys, CredentialExists.
    """
    check_allowed(signed_in)
    change_proofs.check_new_sign_in_method(signed_in, at=at)
    challenges.require_relying_party()
    state = challenges.consume(response, type=CeremonyType.REGISTRATION, user_id=user.id, at=at)
    try:
        creation = webauthn_responses.parse_creation(response.credential)
        credential = verification.verify_creation(creation, state=state, user_id=user.id)
    except webauthn_responses.MalformedCredential:
        raise errors.CredentialMalformed from None
    except verification.CredentialRejected:
        raise errors.CredentialNotVerified from None
    try:
        with transaction.atomic(durable=True):
            # One at a time per user, so that the limit holds.
            locked = locks.lock_signed_in_user(signed_in)
            check_allowed(locked)
            if Passkey.objects.filter(user_id=user.id).count() >= conf.current().passkeys.max_per_user:
                raise errors.TooManyPasskeys
            passkey = Passkey.objects.create(
                user_id=user.id,
                credential_id=credential.id,
                public_key=credential.public_key,
                attestation_type=credential.attestation_format,
                aaguid=credential.aaguid,
                sign_count=credential.sign_count,
                transports=list(credential.transports),
                backup_eligible=credential.is_backup_eligible,
                backed_up=credential.is_backed_up,
                friendly_name=authenticators.name(credential.aaguid),
                created_at=at,
                updated_at=at,
            )
            traits = {"passkey_id": str(passkey.id)}
            audit.record(audit.Action.PASSKEY_CREATED, actor=user, caller=caller, at=at, traits=traits)
            user_events.record_passkey(
                EventType.PASSKEY_CREATED,
                user.id,
                passkey_id=str(passkey.id),
                friendly_name=passkey.friendly_name or "",
                at=at,
            )
    except IntegrityError as error:
        if not Passkey.objects.filter(credential_id=credential.id).exists():
            raise
        raise errors.CredentialExists from error
    return passkey
