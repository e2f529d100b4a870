"""What tokens holds about a person: sessions, outstanding secrets, flows not finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django.db import transaction
from django.db.models import Q, QuerySet

from authsvc.personal_data import Person, Row, shown
from tokens.models import AmrClaim, FlowState, LegacyRefreshToken, OneTimeToken, Session

_SECRETS = {
    Session: {"refresh_token_hmac_key"},
    LegacyRefreshToken: {"token", "parent"},
    OneTimeToken: {"token_hash", "link_hash"},
    FlowState: {
        "auth_code", "code_challenge", "provider_access_token", "provider_refresh_token", "invite_token",
    },
}  # fmt: skip


class SignIns:
    def held(self, person: Person) -> Iterator[tuple[str, Iterable[Row]]]:
        sessions = Session.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "sessions", shown(sessions, without=_SECRETS[Session])
        yield "mfa_amr_claims", shown(AmrClaim.objects.filter(session__user_id=person.id).order_by("created_at", "id"))
        legacy = LegacyRefreshToken.objects.filter(user_id=person.id).order_by("id")
        yield "refresh_tokens", shown(legacy, without=_SECRETS[LegacyRefreshToken])
        secrets = OneTimeToken.objects.filter(user_id=person.id).order_by("created_at", "id")
        yield "one_time_tokens", shown(secrets, without=_SECRETS[OneTimeToken])
        yield "flow_state", shown(_flows(person).order_by("created_at", "id"), without=_SECRETS[FlowState])

    def forget(self, person: Person) -> Mapping[str, int]:
        with transaction.atomic(savepoint=False):
            return {
                "refresh_tokens": LegacyRefreshToken.objects.filter(user_id=person.id)._raw_delete("default"),
                "flow_state": _flows(person)._raw_delete("default"),
            }


def _flows(person: Person) -> QuerySet[FlowState]:
    return FlowState.objects.filter(Q(user_id=person.id) | Q(linking_target_id=person.id))
