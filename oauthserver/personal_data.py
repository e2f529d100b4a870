"""Personal data of the OAuth server: authorization requests and consents of a user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from authsvc.personal_data import DataSubject, Row, export_rows
from oauthserver.models import OAuthAuthorization, OAuthConsent

_SECRETS = frozenset({"authorization_id", "authorization_code", "code_challenge", "state", "nonce"})


class GrantedAccess:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        consents = OAuthConsent.objects.filter(user_id=data_subject.id).order_by("granted_at", "id")
        yield "oauth_consents", export_rows(consents)
        requests = OAuthAuthorization.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "oauth_authorizations", export_rows(requests, without=_SECRETS)

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """No rows: they disappear with the user's row, and requests without a user (`login_hint`) after a day."""
        return {}
