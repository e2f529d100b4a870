"""What accounts holds about a person: the user, identities, second factors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from accounts.models import Factor, Identity, User
from authsvc.core.personal_data import Person, Row, shown

_SECRETS_OF_FACTORS = {"secret", "web_authn_credential", "last_webauthn_challenge_data"}


class Account:
    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        yield "users", shown(User.objects.filter(id=person.id), without={"password"})
        yield "identities", shown(Identity.objects.filter(user_id=person.id).order_by("created_at", "id"))
        factors = Factor.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "mfa_factors", shown(factors, without=_SECRETS_OF_FACTORS)

    def forget(self, person: Person) -> Mapping[str, int]:
        return {}  # all of it goes with the user's row
