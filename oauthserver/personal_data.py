"""Personal data of the OAuth server: authorization requests and consents of a user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from django.db import transaction

from authsvc.db.sql import fetch_rows, namespaced
from authsvc.personal_data import DataSubject, Row, export_rows
from oauthserver.models import DeviceAuthorization, OAuthAuthorization, OAuthConsent

_SECRETS = frozenset({"authorization_id", "authorization_code", "code_challenge", "state", "nonce"})
_DEVICE_SECRETS = frozenset({"device_code_hash", "user_code_hash"})


class OAuthServerPersonalData:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        consents = OAuthConsent.objects.filter(user_id=data_subject.id).order_by("granted_at", "id")
        yield "oauth_consents", export_rows(consents)
        requests = OAuthAuthorization.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "oauth_authorizations", export_rows(requests, without=_SECRETS)
        devices = DeviceAuthorization.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "oauth_device_authorizations", export_rows(devices, without=_DEVICE_SECRETS)

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        """Delete the rows of a user whose row remains. One statement.

        Approved requests stay until they expire, without the address, so that their codes are refused as those of a
        deleted user. Requests of no user that name an address (`login_hint`) are deleted after a day.
        """
        table = namespaced("oauth_authorizations")
        devices = namespaced("oauth_device_authorizations")
        sql = f"""
            WITH consents AS (DELETE FROM {namespaced("oauth_consents")} WHERE user_id = %(user_id)s RETURNING id),
            requests AS (DELETE FROM {table} WHERE user_id = %(user_id)s AND status <> 'approved' RETURNING id),
            devices AS (DELETE FROM {devices} WHERE user_id = %(user_id)s RETURNING id),
            kept AS (UPDATE {table} SET login_hint = NULL WHERE user_id = %(user_id)s AND status = 'approved')
            SELECT (SELECT count(*) FROM consents), (SELECT count(*) FROM requests), (SELECT count(*) FROM devices)
        """  # noqa: S608  (own table names)
        with transaction.atomic(savepoint=False):
            ((consents, requests, devices),) = fetch_rows(sql, {"user_id": data_subject.id})
        return {
            "oauth_consents": consents, "oauth_authorizations": requests, "oauth_device_authorizations": devices,
        }  # fmt: skip
