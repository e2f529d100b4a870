"""Challenges of passkeys: made for one ceremony of one user or of whoever answers, and taken once."""

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
from authsvc.db.sql import namespaced, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A ceremony under way, as its browser is told."""

    challenge_id: UUID
    options: dict[str, Any] = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a browser sends back; the parts as they came."""

    challenge_id: str
    credential: object = field(repr=False)


def require_relying_party() -> None:
    """Raises RelyingPartyUnknown."""
    if conf.current().webauthn.missing:
        raise errors.RelyingPartyUnknown


def remember(ceremony: Ceremony, *, type: CeremonyType, user_id: UUID | None, at: datetime) -> Begun:
    challenge_id, expires_at = uuid4(), at + conf.current().webauthn.challenge_expiry
    PasskeyChallenge.objects.create(
        id=challenge_id,
        user_id=user_id,
        challenge_type=type,
        session_data=ceremony.state,
        created_at=at,
        expires_at=expires_at,
    )
    return Begun(challenge_id=challenge_id, options=ceremony.options, expires_at=expires_at)


def take(answer: Answer, *, type: CeremonyType, user_id: UUID | None, at: datetime) -> dict[str, Any]:
    """What was remembered of the ceremony that is answered, which is over with this, whatever becomes of the answer.

    Raises ChallengeIdMissing, CredentialMissing, ChallengeIdMalformed, PasskeyChallengeNotFound or
    PasskeyChallengeExpired.
    """
    if not answer.challenge_id:
        raise errors.ChallengeIdMissing
    if answer.credential is None:
        raise errors.CredentialMissing
    challenge_id = identifiers.uuid(answer.challenge_id)
    if challenge_id is None:
        raise errors.ChallengeIdMalformed
    taken = _delete(challenge_id, type=type, user_id=user_id)
    if taken is None:
        raise errors.PasskeyChallengeNotFound
    state, expires_at = taken
    if at > expires_at:
        raise errors.PasskeyChallengeExpired
    return state


def _delete(challenge_id: UUID, *, type: CeremonyType, user_id: UUID | None) -> tuple[dict[str, Any], datetime] | None:
    """Delete a challenge and return its state and end; of requests side by side, one gets it. One statement."""
    sql = f"""
        DELETE FROM {namespaced("webauthn_challenges")}
        WHERE id = %s AND challenge_type = %s AND user_id IS NOT DISTINCT FROM %s
        RETURNING session_data::text, expires_at
    """  # noqa: S608  (the name of a table of ours)
    found = row(sql, (challenge_id, type, user_id))
    return (orjson.loads(found[0]), found[1]) if found else None
