"""Statements on accounts and their identities, as hand-written SQL."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from uuid import UUID

import orjson

from accounts.identities.external_identity import ExternalIdentity
from accounts.users import queries as user_queries
from accounts.users import records
from accounts.users.records import Row, UserRecord
from authsvc import conf
from authsvc.db.sql import fetch_row, fetch_rows, namespaced


def find_identity(identity: ExternalIdentity) -> tuple[UserRecord, UUID] | None:
    """The user with this identity, and the id of the identity.

    One statement, and a second one for an identity of a tenant that is not stored under its key. Its former key counts
    only if the stored data are of the same tenant; `external_sign_in` then replaces the key.
    """
    found = user_queries.find_by_identity(provider=identity.provider, provider_id=identity.subject)
    if found is not None or not identity.former_subject:
        return found
    found = user_queries.find_by_identity(provider=identity.provider, provider_id=identity.former_subject)
    if found is None:
        return None
    user, identity_id = found
    stored = next(record for record in user.identities if record.id == str(identity_id))
    return found if identity.is_former(orjson.loads(stored.data_json)) else None


def address_owners(emails: list[str], *, audience: str) -> list[Row]:
    """The owners of these addresses: user id, provider (None for the account's own), address, verified, audience.

    The last column is true for the unconfirmed address of an account that a person controls
    (`UserRecord.has_unproven_claim`), or that belongs to another audience.
    """
    is_claim = """u.email_confirmed_at IS NULL
            AND (u.invited_at IS NULL OR u.phone_confirmed_at < u.invited_at)
            AND (u.phone_confirmed_at IS NOT NULL OR u.last_sign_in_at IS NOT NULL OR coalesce(u.aud, '') <> %s)"""
    sql = f"""
        SELECT u.id, NULL, u.email, u.email_confirmed_at IS NOT NULL, u.aud, {is_claim}
        FROM {namespaced("users")} u WHERE u.email = ANY(%s) AND NOT u.is_sso_user
        UNION ALL
        SELECT u.id, i.provider, i.email, i.identity_data -> 'email_verified' = 'true'::jsonb, u.aud, false
        FROM {namespaced("identities")} i JOIN {namespaced("users")} u ON u.id = i.user_id WHERE i.email = ANY(%s)
    """
    return fetch_rows(sql, (audience, emails, emails))


@cache
def _merge_user_metadata() -> str:
    # Providers in the order in which the account got them, by the oldest identity of each. An anonymous user has
    # none until it is permanent.
    providers = f"""
        SELECT jsonb_build_object('provider', jsonb_agg(p.provider ORDER BY p.since, p.provider) -> 0,
                                  'providers', jsonb_agg(p.provider ORDER BY p.since, p.provider))
        FROM (SELECT i.provider, min(i.created_at) since FROM {namespaced("identities")} i
              WHERE i.user_id = u.id GROUP BY i.provider) p HAVING count(*) > 0
    """
    merged = "(coalesce(u.raw_user_meta_data, '{}') || %(identity_data)s::jsonb) - %(deleted_keys)s::text[]"
    return f"""
        UPDATE {namespaced("users")} u SET
            raw_app_meta_data = CASE WHEN u.is_anonymous OR %(keeps_providers)s THEN u.raw_app_meta_data
                ELSE coalesce(u.raw_app_meta_data, '{{}}') || coalesce(({providers}), '{{}}') END,
            raw_user_meta_data = CASE WHEN octet_length(({merged})::text) <= %(max_bytes)s THEN {merged}
                ELSE coalesce(u.raw_user_meta_data, '{{}}') END,
            last_sign_in_at = coalesce(%(signed_in_at)s, u.last_sign_in_at), updated_at = %(at)s
        WHERE u.id = %(user_id)s AND u.deleted_at IS NULL RETURNING {records.user_columns()}
    """


def merge_user_metadata(
    *,
    user_id: UUID,
    identity_data: str,
    deleted_keys: list[str],
    keeps_providers: bool,
    signed_in_at: datetime | None,
    at: datetime,
) -> UserRecord | None:
    """Write a user's providers into `app_metadata`, and merge `identity_data`, a JSON object, into `user_metadata`.

    `app_metadata` of an anonymous user stays unchanged, and with `keeps_providers`: without a lock of the user's row,
    the statement may see identities as they were before. The merge is left out where its result is larger than
    permitted, because a sign-in must not fail for it.

    Returns the updated user with the identities from before the statement; None when the user does not exist or
    is soft-deleted.
    """
    values = {
        "identity_data": identity_data,
        "deleted_keys": deleted_keys,
        "keeps_providers": keeps_providers,
        "max_bytes": conf.current().metadata.max_user_bytes,
        "signed_in_at": signed_in_at,
        "at": at,
        "user_id": user_id,
    }
    updated = fetch_row(_merge_user_metadata(), values)
    return records.read(updated) if updated else None
