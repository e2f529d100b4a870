"""Challenges of passkey ceremonies: stored for one ceremony, with or without a user, and consumed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson

from accounts.models import CeremonyType, PasskeyChallenge
from accounts.passkeys import errors
from accounts.users import identifiers
from accounts.webauthn.ceremonies import Ceremony
from authsvc import conf
from authsvc.db.sql import fetch_row, namespaced


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCeremony:
    """A started ceremony, as the response shows it."""

    challenge_id: UUID
    options: dict[str, Any] = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialResponse:
    """The response of a browser, unparsed."""

    challenge_id: str
    credential: object = field(repr=False)


def require_relying_party() -> None:
    """Raise RelyingPartyUnknown if the settings do not define the relying party."""
    if conf.current().webauthn.missing:
        raise errors.RelyingPartyUnknown


def store(ceremony: Ceremony, *, type: CeremonyType, user_id: UUID | None, at: datetime) -> StartedCeremony:
    """Store the challenge of a ceremony; `user_id` is None for a sign-in. One statement."""
    challenge_id, expires_at = uuid4(), at + conf.current().webauthn.challenge_expiry
    PasskeyChallenge.objects.create(
        id=challenge_id,
        user_id=user_id,
        challenge_type=type,
        session_data=ceremony.state,
        created_at=at,
        expires_at=expires_at,
    )
    return StartedCeremony(challenge_id=challenge_id, options=ceremony.options, expires_at=expires_at)


def consume(response: CredentialResponse, *, type: CeremonyType, user_id: UUID | None, at: datetime) -> dict[str, Any]:
    """Delete the challenge and return the state of its ceremony, whether or not the response verifies.

    Raises ChallengeIdMissing, CredentialMissing, ChallengeIdMalformed, PasskeyChallengeNotFound or
    PasskeyChallengeExpired.
    """
    if not response.challenge_id:
        raise errors.ChallengeIdMissing
    if response.credential is None:
        raise errors.CredentialMissing
    challenge_id = identifiers.uuid(response.challenge_id)
    if challenge_id is None:
        raise errors.ChallengeIdMalformed
    consumed = _delete(challenge_id, type=type, user_id=user_id)
    if consumed is None:
        raise errors.PasskeyChallengeNotFound
    state, expires_at = consumed
    if at > expires_at:
        raise errors.PasskeyChallengeExpired
    return state


def _delete(challenge_id: UUID, *, type: CeremonyType, user_id: UUID | None) -> tuple[dict[str, Any], datetime] | None:
    """Delete a challenge and return its state and expiry; of concurrent requests, one gets it. One statement."""
    sql = f"""
        DELETE FROM {namespaced("webauthn_challenges")}
        WHERE id = %s AND challenge_type = %s AND user_id IS NOT DISTINCT FROM %s
        RETURNING session_data::text, expires_at
    """  # noqa: S608  (the name of our table)
    row = fetch_row(sql, (challenge_id, type, user_id))
    return (orjson.loads(row[0]), row[1]) if row else None


def render_challenge(started: StartedCeremony) -> dict[str, Any]:
    """The PasskeyChallenge object of the API."""
    return {
        "challenge_id": str(started.challenge_id),
        "options": started.options,
        "expires_at": int(started.expires_at.timestamp()),
    }
