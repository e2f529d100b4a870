"""Users and identities as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from accounts.models import FactorType, Passkey
from accounts.queries import USER_WIDTH, Row
from accounts.records import FactorRecord, IdentityRecord, UserRecord
from accounts.services.action_links import ActionLink
from accounts.services.factors.challenges import Challenged
from accounts.services.factors.enrolment import Enrolled
from accounts.services.passkeys.challenges import Begun
from authsvc.core import clock
from authsvc.core.audit import Entry

Moment = str | datetime
"""In wire form, or to be brought there by `Answer`."""

_OPTIONAL_TIMES = (
    "email_confirmed_at",
    "invited_at",
    "phone_confirmed_at",
    "confirmation_sent_at",
    "confirmed_at",
    "recovery_sent_at",
    "email_change_sent_at",
    "phone_change_sent_at",
    "reauthentication_sent_at",
    "last_sign_in_at",
    "banned_until",
    "deleted_at",
)


def user(record: UserRecord) -> dict[str, Any]:
    """The User object: strings never null, absent times left out, metadata passed through as text."""
    user_id = str(record.id)
    return _user(
        user_id,
        (record.aud, record.role, record.email, record.phone),
        [moment and clock.text(moment) for moment in (getattr(record, name) for name in _OPTIONAL_TIMES)],
        (record.email_change, record.phone_change),
        (record.app_metadata_json, record.user_metadata_json),
        [factor(each) for each in record.factors],
        [identity(each, user_id=user_id) for each in record.identities],
        (clock.text(record.created_at), clock.text(record.updated_at)),
        is_anonymous=record.is_anonymous,
    )


def listed(row: Row) -> dict[str, Any]:
    """The same for a row of a list, as it was read: a third of the work, which counts where there are many."""
    (
        id_, aud, role, email, phone, _, email_confirmed_at, phone_confirmed_at, confirmed_at, invited_at,
        confirmation_sent_at, recovery_sent_at, email_change, email_change_sent_at, phone_change, phone_change_sent_at,
        reauthentication_sent_at, last_sign_in_at, app_metadata, user_metadata, is_anonymous, _, banned_until,
        deleted_at, created_at, updated_at, identities, factors,
    ) = row[:USER_WIDTH]  # fmt: skip
    times = (
        email_confirmed_at, invited_at, phone_confirmed_at, confirmation_sent_at, confirmed_at, recovery_sent_at,
        email_change_sent_at, phone_change_sent_at, reauthentication_sent_at, last_sign_in_at, banned_until, deleted_at,
    )  # fmt: skip
    return _user(
        id_,
        (aud, role, email, phone),
        [moment and clock.json(moment) for moment in times],
        (email_change, phone_change),
        (app_metadata, user_metadata),
        [_factor(*values) for values in orjson.loads(factors)] if factors else (),
        [_identity(id_, *values) for values in orjson.loads(identities)] if identities else (),
        (clock.json(created_at), clock.json(updated_at)),
        is_anonymous=is_anonymous,
    )


def _user(
    user_id: str | UUID,
    names: tuple[str | None, str | None, str | None, str | None],
    times: Sequence[Moment | None],
    pending: tuple[str | None, str | None],
    metadata: tuple[str | None, str | None],
    factors: Sequence[dict[str, Any]],
    identities: Sequence[dict[str, Any]],
    rows_times: tuple[Moment, Moment],
    *,
    is_anonymous: bool,
) -> dict[str, Any]:
    aud, role, email, phone = names
    shown: dict[str, Any] = {
        "id": user_id,
        "aud": aud or "",
        "role": role or "",
        "email": email or "",
        "phone": phone or "",
    }
    shown |= {name: moment for name, moment in zip(_OPTIONAL_TIMES, times, strict=True) if moment is not None}
    email_change, phone_change = pending
    if email_change:
        shown["new_email"] = email_change
    if phone_change:
        shown["new_phone"] = phone_change
    app_metadata, user_metadata = metadata
    shown["app_metadata"] = orjson.Fragment(app_metadata or "{}")
    shown["user_metadata"] = orjson.Fragment(user_metadata or "{}")
    if factors:
        shown["factors"] = factors
    shown["identities"] = identities
    created_at, updated_at = rows_times
    shown["created_at"] = created_at
    shown["updated_at"] = updated_at
    shown["is_anonymous"] = is_anonymous
    return shown


def action_link(made: ActionLink) -> dict[str, Any]:
    """The user with what signs them in beside it."""
    return {
        **user(made.user),
        "action_link": made.url,
        "email_otp": made.secret.code,
        "hashed_token": made.secret.link_token,
        "verification_type": made.type,
        "redirect_to": made.redirect_to,
    }


def enrolled(made: Enrolled) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": str(made.id), "type": made.factor_type, "friendly_name": made.friendly_name}
    if made.seed is not None:
        shown["totp"] = {"qr_code": made.seed.qr_code, "secret": made.seed.secret, "uri": made.seed.uri}
    if made.factor_type == FactorType.PHONE:
        shown["phone"] = made.phone
    return shown


def challenged(made: Challenged) -> dict[str, Any]:
    return {
        "id": str(made.id),
        "type": made.factor_type,
        "expires_at": int(made.expires_at.timestamp()),
        **made.shown,
    }


def identity(record: IdentityRecord, *, user_id: str) -> dict[str, Any]:
    return _identity(
        user_id,
        record.id,
        record.provider_id,
        record.data_json,
        record.provider,
        record.last_sign_in_at,
        record.created_at,
        record.updated_at,
        record.email,
    )


def _identity(
    user_id: str | UUID,
    id: str,
    provider_id: str,
    data_json: str,
    provider: str,
    last_sign_in_at: str | None,
    created_at: str,
    updated_at: str,
    email: str | None,
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "identity_id": id,
        "id": provider_id,
        "user_id": user_id,
        "identity_data": orjson.Fragment(data_json),
        "provider": provider,
    }
    if last_sign_in_at:
        shown["last_sign_in_at"] = last_sign_in_at
    shown["created_at"] = created_at
    shown["updated_at"] = updated_at
    if email:
        shown["email"] = email
    return shown


def factor(record: FactorRecord) -> dict[str, Any]:
    return _factor(
        record.id,
        record.friendly_name,
        record.factor_type,
        record.status,
        record.phone,
        record.created_at,
        record.updated_at,
        record.last_challenged_at,
        record.web_authn_aaguid,
    )


def _factor(
    id: str,
    friendly_name: str | None,
    factor_type: str,
    status: str,
    phone: str | None,
    created_at: str,
    updated_at: str,
    last_challenged_at: str | None,
    web_authn_aaguid: str | None,
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": id,
        "created_at": created_at,
        "updated_at": updated_at,
        "status": status,
        "factor_type": factor_type,
        "phone": phone or "",
        "last_challenged_at": last_challenged_at,
    }
    if friendly_name:
        shown["friendly_name"] = friendly_name
    if web_authn_aaguid:
        shown["web_authn_aaguid"] = web_authn_aaguid
    return shown


def begun(ceremony: Begun) -> dict[str, Any]:
    return {
        "challenge_id": str(ceremony.challenge_id),
        "options": ceremony.options,
        "expires_at": int(ceremony.expires_at.timestamp()),
    }


def passkey(row: Passkey) -> dict[str, Any]:
    shown = {"id": str(row.id), "created_at": clock.text(row.created_at)}
    if row.friendly_name:
        shown["friendly_name"] = row.friendly_name
    if row.last_used_at:
        shown["last_used_at"] = clock.text(row.last_used_at)
    return shown


def audit_entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "payload": orjson.Fragment(entry.payload_json),
        "created_at": clock.text(entry.created_at) if entry.created_at else None,
        "ip_address": entry.address,
    }
