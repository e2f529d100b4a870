"""Issues ID tokens (OpenID Connect Core §2)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from accounts.users.records import UserRecord
from oauthserver import scopes
from oauthserver.userinfo import claims
from tokens.jwt import signing_keys

_LIFETIME = timedelta(hours=1)


def issue(
    user: UserRecord,
    *,
    client_id: UUID,
    scope: str,
    nonce: str | None,
    session_id: UUID | None,
    acr: str | None,
    authenticated_at: datetime,
    at: datetime,
) -> str:
    """An ID token for a client, signed with the asymmetric key of access tokens.

    `session_id`: the session of the client, for a client that takes part in logout. `acr` is the level of the sign-in,
    for a client that has requested one.
    """
    granted = scopes.parse(scope)
    issued_at = int(at.timestamp())
    content: dict[str, Any] = {
        "iss": signing_keys.issuer(),
        "sub": str(user.id),
        "aud": str(client_id),
        "iat": issued_at,
        "exp": issued_at + int(_LIFETIME.total_seconds()),
        "auth_time": int(authenticated_at.timestamp()),
        "client_id": str(client_id),
        "email_verified": False,
        "phone_number_verified": False,
        **({"nonce": nonce} if nonce else {}),
        **({"acr": acr} if acr else {}),
        **({"sid": str(session_id)} if session_id else {}),
        **claims.profile_claims(user, granted),
    }
    if scopes.EMAIL in granted and user.email:
        content |= {"email": user.email, "email_verified": user.email_confirmed_at is not None}
    if scopes.PHONE in granted and user.phone:
        content |= {"phone_number": user.phone, "phone_number_verified": user.phone_confirmed_at is not None}
    return signing_keys.current().signing.encode(content)
