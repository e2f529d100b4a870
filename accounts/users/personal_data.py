"""What accounts holds about a person: the user, identities, second factors, passkeys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from accounts.models import Factor, FactorChallenge, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from authsvc.personal_data import Person, Row, shown

_SECRETS_OF_FACTORS = {"secret", "web_authn_credential", "last_webauthn_challenge_data"}


class Account:
    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "users", shown(User.objects.filter(id=person.id), without={"password"})
        yield "identities", shown(Identity.objects.filter(user_id=person.id).order_by("created_at", "id"))
        factors = Factor.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "mfa_factors", shown(factors, without=_SECRETS_OF_FACTORS)
        challenges = FactorChallenge.objects.filter(factor__user_id=person.id).order_by("created_at", "id")
        yield "mfa_challenges", shown(challenges, without={"otp_code", "web_authn_session_data"})
        codes = RecoveryCode.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "mfa_recovery_codes", shown(codes, without={"code_hash"})
        passkeys = Passkey.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "webauthn_credentials", shown(passkeys, without={"credential_id", "public_key"})
        ceremonies = PasskeyChallenge.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "webauthn_challenges", shown(ceremonies, without={"session_data"})

    def forget(self, person: Person) -> Mapping[str, int]:
        return {}  # all of it goes with the user's row
