"""Reads users and sessions for `tokens` (`tokens.sessions.subjects.UserSource`)."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from accounts.models import User
from accounts.users import payloads, queries
from accounts.users.records import Row, UserRecord
from tokens.sessions.aal import AmrEntry
from tokens.sessions.subjects import BEGINNING, SessionFacts, SignedIn, Subject


def _read_session(row: Row) -> tuple[SessionFacts | None, tuple[AmrEntry, ...]]:
    (
        id_, user_id, created_at, refreshed_at, not_after, aal, tag, oauth_client_id, scopes, key, counter, methods,
    ) = row  # fmt: skip
    if id_ is None:
        return None, ()
    facts = SessionFacts(
        id=id_,
        user_id=user_id,
        created_at=created_at or BEGINNING,
        refreshed_at=refreshed_at,
        not_after=not_after,
        aal=aal or "aal1",
        tag=tag,
        oauth_client_id=oauth_client_id,
        scopes=scopes,
        refresh_token_hmac_key=key,
        refresh_token_counter=counter,
    )
    entries = orjson.loads(methods) if methods else []
    return facts, tuple(AmrEntry(method=method, at=datetime.fromtimestamp(at, UTC)) for method, at in entries)


class AccountUsers:
    def by_id(self, user_id: UUID) -> UserRecord | None:
        return queries.get(user_id)

    def signed_in(self, *, user_id: UUID, session_id: UUID | None) -> SignedIn | None:
        found = queries.get_with_session(user_id=user_id, session_id=session_id)
        return _signed_in(*found) if found else None

    def with_session(self, session_id: UUID) -> SignedIn | None:
        found = queries.find_by_session(session_id)
        return _signed_in(*found) if found else None

    def note_sign_in(self, subject: Subject, *, at: datetime) -> UserRecord:
        User.objects.filter(id=subject.id).update(last_sign_in_at=at, updated_at=at)
        return dataclasses.replace(_own(subject), last_sign_in_at=at, updated_at=at)

    def present(self, subject: Subject) -> dict[str, Any]:
        return payloads.user(_own(subject))


def _signed_in(user: UserRecord, session: Row) -> SignedIn:
    facts, amr = _read_session(session)
    return SignedIn(subject=user, session=facts, amr=amr)


def own(signed_in: SignedIn) -> UserRecord:
    """The user of a request as this app knows them."""
    return _own(signed_in.subject)


def _own(subject: Subject) -> UserRecord:
    if not isinstance(subject, UserRecord):
        raise TypeError("a subject that this app did not read")
    return subject
