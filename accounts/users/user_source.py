"""Reads users and sessions for `tokens` (`tokens.sessions.users.UserSource`)."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from accounts.models import User
from accounts.users import payloads, queries
from accounts.users.records import Row, UserRecord
from tokens.jwt.access_tokens import AmrEntry
from tokens.sessions.users import EPOCH, SessionRecord, SignedInUser, TokenUser


def _read_session(row: Row) -> tuple[SessionRecord | None, tuple[AmrEntry, ...]]:
    (
        id_, user_id, created_at, refreshed_at, not_after, aal, tag, oauth_client_id, scopes, key, counter, methods,
    ) = row  # fmt: skip
    if id_ is None:
        return None, ()
    session = SessionRecord(
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
    return session, tuple(AmrEntry(method=method, at=datetime.fromtimestamp(at, UTC)) for method, at in entries)


class AccountUsers:
    def find_user(self, user_id: UUID) -> UserRecord | None:
        return queries.get(user_id)

    def find_signed_in_user(self, *, user_id: UUID, session_id: UUID | None) -> SignedInUser | None:
        found = queries.get_with_session(user_id=user_id, session_id=session_id)
        return _signed_in_user(*found) if found else None

    def find_by_session(self, session_id: UUID) -> SignedInUser | None:
        found = queries.find_by_session(session_id)
        return _signed_in_user(*found) if found else None

    def record_sign_in(self, user: TokenUser, *, at: datetime) -> UserRecord:
        User.objects.filter(id=user.id).update(last_sign_in_at=at, updated_at=at)
        return dataclasses.replace(_as_record(user), last_sign_in_at=at, updated_at=at)

    def user_json(self, user: TokenUser) -> dict[str, Any]:
        return payloads.user(_as_record(user))


def _signed_in_user(user: UserRecord, session_row: Row) -> SignedInUser:
    session, amr = _read_session(session_row)
    return SignedInUser(user=user, session=session, amr=amr)


def get_user_record(signed_in: SignedInUser) -> UserRecord:
    return _as_record(signed_in.user)


def _as_record(user: TokenUser) -> UserRecord:
    if not isinstance(user, UserRecord):
        raise TypeError("the user was not read by AccountUsers")
    return user
