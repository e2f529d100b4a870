"""Creates rows for tests through the services, or through the ORM for rows that only imports create."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
from django.db import connection
from django.db.models import DateTimeField, F, Model
from django.utils import timezone

from accounts.models import Factor, User
from accounts.passwords import hashing
from accounts.users import account_creation, queries
from accounts.users.records import UserRecord
from authsvc.caller import Caller
from authsvc.security import crypto, encryption
from tokens.models import FlowState, LegacyRefreshToken, OneTimeToken, Session, TokenType
from tokens.one_time import one_time_tokens
from tokens.one_time.one_time_tokens import OneTimeSecret
from tokens.sessions import impersonation, lifecycle, refresh_tokens

AUDIENCE = "authenticated"
PASSWORD = "correct horse battery staple"

# RFC 7636: a verifier and its S256 challenge.
VERIFIER = "4a9505b9-0857-42bb-ab3c-098b4d28ddc2"
CHALLENGE = "UKwdQNKF35xN-bd8EWuVCSHHEA2ew0BQkEPdmM6wEFM"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A session and the tokens that its client received."""

    user: User
    session: Session
    access_token: str
    refresh_token: str


def make_user(
    *,
    email: str | None = None,
    password: str = PASSWORD,
    password_hash: str | None = None,
    confirmed: bool = True,
    data: dict[str, Any] | None = None,
    audience: str = AUDIENCE,
    at: datetime | None = None,
    **columns: Any,
) -> User:
    """A user with an email identity; `password=""` creates one without a password, `columns` are set on the row.

    `password_hash` is stored unchanged instead of a hash of `password`. Without `email`, a new address is generated.
    """
    if password_hash is None:
        password_hash = hashing.hash_password(password) if password else ""
    user = account_creation.create_user(
        email=f"{secrets.token_hex(6)}@example.com" if email is None else email,
        password_hash=password_hash,
        data=data or {},
        via="signup",
        audience=audience,
        confirmed=confirmed,
        at=at or timezone.now(),
        id=uuid4(),
    )
    if columns:
        User.objects.filter(id=user.id).update(**columns)
    return User.objects.get(id=user.id)


def make_factor(user: User, *, factor_type: str = "totp", status: str = "verified", **columns: Any) -> Factor:
    at = timezone.now()
    return Factor.objects.create(
        user=user, **{"factor_type": factor_type, "status": status, "created_at": at, "updated_at": at, **columns}
    )


def make_session(
    user: User | None = None, *, method: str = "password", at: datetime | None = None, **columns: Any
) -> SignIn:
    """A sign-in of `user`, or of a new user, by `method`; `columns` are set on the session row.

    The session of a banned user began before the ban.
    """
    user = user or make_user()
    rows = User.objects.filter(id=user.id)
    banned_until = rows.values_list("banned_until", flat=True).get()
    if banned_until is not None:
        rows.update(banned_until=None)
    tokens = lifecycle.start_session(
        user=read_record(user),
        method=method,
        caller=Caller(address="192.0.2.1", user_agent="factory", audience=AUDIENCE),
        at=at or timezone.now(),
    )
    if banned_until is not None:
        rows.update(banned_until=banned_until)
    session_id = refresh_tokens.decode(tokens.refresh_token).session_id
    if columns:
        Session.objects.filter(id=session_id).update(**columns)
    return SignIn(
        user=user,
        session=Session.objects.get(id=session_id),
        access_token=tokens.access.token,
        refresh_token=tokens.refresh_token,
    )


def make_impersonation(user: User | None = None, *, operator: SignIn | None = None) -> SignIn:
    """A session in which an operator, or a new one with the default role of operators, impersonates a user."""
    user = user or make_user()
    operator = operator or make_session(make_user(role="svc_admin"))
    at = timezone.now()
    current = queries.AccountUsers().find_by_session(operator.session.id)
    assert current is not None
    tokens = lifecycle.start_session(
        user=read_record(user),
        method=impersonation.METHOD,
        caller=Caller(address="192.0.2.1", user_agent="factory", audience=AUDIENCE),
        at=at,
        not_after=at + impersonation.LIFETIME,
        operator_session=current.session,
    )
    session = Session.objects.get(id=refresh_tokens.decode(tokens.refresh_token).session_id)
    return SignIn(user=user, session=session, access_token=tokens.access.token, refresh_token=tokens.refresh_token)


def refresh_token(session: Session, counter: int) -> str:
    """The refresh token of a session at any counter, whether issued or not."""
    assert session.refresh_token_hmac_key is not None
    key = encryption.decrypt(session.refresh_token_hmac_key, bound_to=session.id)
    return refresh_tokens.encode(session_id=session.id, counter=counter, key=crypto.base64url_decode(key))


def make_legacy_tokens(
    user: User | None = None, *, count: int = 2, active: bool = True, at: datetime | None = None, **columns: Any
) -> list[LegacyRefreshToken]:
    """The refresh tokens of one imported session, oldest first, each the parent of the next.

    All but the last are revoked; with `active=False` the last one too. `columns` are set on the session row, which
    has neither key nor counter. `session` is the session of every row.
    """
    at = at or timezone.now()
    user = user or make_user()
    session = make_session(
        user, at=at, **{"refresh_token_hmac_key": None, "refresh_token_counter": None, **columns}
    ).session
    rows: list[LegacyRefreshToken] = []
    for number in range(count):
        rows.append(
            LegacyRefreshToken.objects.create(
                token=base64.b32encode(secrets.token_bytes(8)).decode().lower()[:12],
                user=user,
                session=session,
                parent=rows[-1].token if rows else None,
                revoked=number < count - 1 or not active,
                created_at=at,
                updated_at=at,
            )
        )
    return rows


def make_one_time_token(
    user: User,
    token_type: TokenType = TokenType.RECOVERY,
    *,
    pkce: bool = False,
    identifier: str | None = None,
    at: datetime | None = None,
    **columns: Any,
) -> OneTimeSecret:
    """A code and a link token as an email to `user` contains them; `columns` are set on the row."""
    secret = one_time_tokens.issue(
        user_id=user.id,
        token_type=token_type,
        identifier=identifier or user.email or user.phone or "",
        pkce=pkce,
        at=at or timezone.now(),
    )
    if columns:
        OneTimeToken.objects.filter(user=user, token_type=token_type).update(**columns)
    return secret


def make_flow(user: User, *, method: str = "magiclink", at: datetime | None = None, **columns: Any) -> FlowState:
    """A PKCE flow with VERIFIER whose link has been opened, so that the code in `auth_code` can be exchanged."""
    at = at or timezone.now()
    code = columns.pop("auth_code", None) or crypto.generate_auth_code()
    values = {
        "user_id": user.id,
        "auth_code": crypto.hash_auth_code(code),
        "code_challenge": CHALLENGE,
        "code_challenge_method": "s256",
        "provider_type": method,
        "authentication_method": method,
        "created_at": at,
        "updated_at": at,
        "auth_code_issued_at": at,
    }
    flow = FlowState.objects.create(**{**values, **columns})
    flow.auth_code = code  # as the client gets it
    return flow


def make_audit_entries(count: int, *, payload: dict[str, Any], at: datetime) -> None:
    """Many entries up to `at`, a microsecond apart, by one statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_log_entries (id, payload, created_at)"
            " SELECT gen_random_uuid(), %s::jsonb, %s - n * interval '1 microsecond' FROM generate_series(1, %s) n",
            [orjson.dumps(payload).decode(), at, count],
        )


def make_plain_users(count: int, *, at: datetime | None = None) -> None:
    """Many users without identities, by one statement: `user1@example.com` and so on."""
    User.objects.bulk_create(
        User(email=f"user{number}@example.com", aud=AUDIENCE, created_at=at or timezone.now())
        for number in range(1, count + 1)
    )


def backdate(*rows: Model, by: timedelta) -> None:
    """Move every timestamp in these rows back by `by`. The passed instances are not changed."""
    for row in rows:
        times = [field.name for field in row._meta.concrete_fields if isinstance(field, DateTimeField)]
        type(row)._default_manager.filter(pk=row.pk).update(**{name: F(name) - by for name in times})


def read_record(user: User) -> UserRecord:
    row = queries.get(user.id)
    assert row is not None
    return row
