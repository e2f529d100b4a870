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
        """The rows of a user disappear with the user's row. A request without a user may name an address."""
        unbound = OAuthAuthorization.objects.filter(user_id__isnull=True, login_hint__in=data_subject.addresses)
        return {"oauth_authorizations": unbound._raw_delete("default")} if data_subject.addresses else {}
