"""Personal data in accounts: users, identities, second factors, passkeys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from accounts.models import Factor, FactorChallenge, Identity, Passkey, PasskeyChallenge, RecoveryCode, User
from authsvc.personal_data import DataSubject, Row, export_rows

_FACTOR_SECRETS = {"secret", "web_authn_credential", "last_webauthn_challenge_data"}


class Account:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "users", export_rows(User.objects.filter(id=data_subject.id), without={"password"})
        yield "identities", export_rows(Identity.objects.filter(user_id=data_subject.id).order_by("created_at", "id"))
        factors = Factor.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_factors", export_rows(factors, without=_FACTOR_SECRETS)
        challenges = FactorChallenge.objects.filter(factor__user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_challenges", export_rows(challenges, without={"otp_code", "web_authn_session_data"})
        codes = RecoveryCode.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "mfa_recovery_codes", export_rows(codes, without={"code_hash"})
        passkeys = Passkey.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "webauthn_credentials", export_rows(passkeys, without={"credential_id", "public_key"})
        ceremonies = PasskeyChallenge.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "webauthn_challenges", export_rows(ceremonies, without={"session_data"})

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        return {}  # all of it goes with the user's row
