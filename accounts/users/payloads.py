"""Users and identities as the API shows them."""

from __future__ import annotations

from typing import Any

import orjson

from accounts.administration.action_links import ActionLink
from accounts.mfa.challenges import Challenged
from accounts.mfa.enrolment import Enrolled
from accounts.models import FactorType, Passkey
from accounts.passkeys.challenges import Begun
from accounts.users.records import FactorRecord, IdentityRecord, UserRecord
from authsvc import clock
from authsvc.audit.search import Entry

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
    shown: dict[str, Any] = {
        "id": user_id,
        "aud": record.aud,
        "role": record.role,
        "email": record.email,
        "phone": record.phone,
    }
    times = [(name, getattr(record, name)) for name in _OPTIONAL_TIMES]
    shown |= {name: clock.rfc3339(moment) for name, moment in times if moment is not None}
    if record.email_change:
        shown["new_email"] = record.email_change
    if record.phone_change:
        shown["new_phone"] = record.phone_change
    shown["app_metadata"] = orjson.Fragment(record.app_metadata_json)
    shown["user_metadata"] = orjson.Fragment(record.user_metadata_json)
    if record.factors:
        shown["factors"] = [factor(each) for each in record.factors]
    shown["identities"] = [identity(each, user_id=user_id) for each in record.identities]
    for name in ("created_at", "updated_at"):
        moment = getattr(record, name)
        shown[name] = clock.rfc3339(moment) if moment else None
    shown["is_anonymous"] = record.is_anonymous
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
    shown: dict[str, Any] = {
        "identity_id": record.id,
        "id": record.provider_id,
        "user_id": user_id,
        "identity_data": orjson.Fragment(record.data_json),
        "provider": record.provider,
    }
    if record.last_sign_in_at:
        shown["last_sign_in_at"] = record.last_sign_in_at
    shown["created_at"] = record.created_at
    shown["updated_at"] = record.updated_at
    if record.email:
        shown["email"] = record.email
    return shown


def factor(record: FactorRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": record.id,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "status": record.status,
        "factor_type": record.factor_type,
        "phone": record.phone or "",
        "last_challenged_at": record.last_challenged_at,
    }
    if record.friendly_name:
        shown["friendly_name"] = record.friendly_name
    if record.web_authn_aaguid:
        shown["web_authn_aaguid"] = record.web_authn_aaguid
    return shown


def begun(ceremony: Begun) -> dict[str, Any]:
    return {
        "challenge_id": str(ceremony.challenge_id),
        "options": ceremony.options,
        "expires_at": int(ceremony.expires_at.timestamp()),
    }


def passkey(row: Passkey) -> dict[str, Any]:
    shown = {"id": str(row.id), "created_at": clock.rfc3339(row.created_at)}
    if row.friendly_name:
        shown["friendly_name"] = row.friendly_name
    if row.last_used_at:
        shown["last_used_at"] = clock.rfc3339(row.last_used_at)
    return shown


def audit_entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": str(entry.id),
        "payload": orjson.Fragment(entry.payload_json),
        "created_at": clock.rfc3339(entry.created_at) if entry.created_at else None,
        "ip_address": entry.address,
    }
