"""Reads users and sessions for `tokens` (`tokens.sessions.users.UserSource`)."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from accounts.models import User
from accounts.users import payloads, queries, records
from accounts.users.records import UserRecord
from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions.users import EPOCH, SessionRecord, SignedInUser, TokenUser


def _session(row: queries.Row) -> tuple[SessionRecord | None, tuple[AmrEntry, ...]]:
    (
        id_, user_id, created_at, refreshed_at, not_after, aal, tag, oauth_client_id, scopes, key, counter, methods,
    ) = row[queries.USER_WIDTH :]  # fmt: skip
    if id_ is None:
        return None, ()
    facts = SessionRecord(
        id=id_,
        user_id=user_id,
        created_at=created_at or EPOCH,
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
    def find_user(self, user_id: UUID) -> UserRecord | None:
        row = queries.by_id(user_id)
        return records.read(row) if row else None

    def find_signed_in_user(self, *, user_id: UUID, session_id: UUID | None) -> SignedInUser | None:
        row = queries.user_and_session(user_id=user_id, session_id=session_id)
        return self._signed_in(row) if row else None

    def find_by_session(self, session_id: UUID) -> SignedInUser | None:
        row = queries.session_and_user(session_id=session_id)
        return self._signed_in(row) if row else None

    def record_sign_in(self, subject: TokenUser, *, at: datetime) -> UserRecord:
        User.objects.filter(id=subject.id).update(last_sign_in_at=at, updated_at=at)
        return dataclasses.replace(_own(subject), last_sign_in_at=at, updated_at=at)

    def user_json(self, subject: TokenUser) -> dict[str, Any]:
        return payloads.user(_own(subject))

    @staticmethod
    def _signed_in(row: queries.Row) -> SignedInUser:
        session, amr = _session(row)
        return SignedInUser(user=records.read(row), session=session, amr=amr)


def get_user_record(signed_in: SignedInUser) -> UserRecord:
    """The user of a request as this app knows them."""
    return _own(signed_in.user)


def _own(subject: TokenUser) -> UserRecord:
    if not isinstance(subject, UserRecord):
        raise TypeError("a subject that this app did not read")
    return subject
