"""Claims about the user that the granted scopes permit (OpenID Connect Core §5.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from accounts.users.records import UserRecord
from oauthserver import scopes


def userinfo(user: UserRecord, granted: Collection[str]) -> dict[str, Any]:
    """The response of the UserInfo endpoint."""
    content: dict[str, Any] = {"sub": str(user.id)}
    if scopes.EMAIL in granted and user.email:
        content["email"] = user.email
        if user.email_confirmed_at is not None:
            content["email_verified"] = True
    content |= profile_claims(user, granted)
    if scopes.PROFILE in granted:
        content["user_metadata"] = orjson.Fragment(user.user_metadata_json)
    if scopes.PHONE in granted and user.phone:
        content |= {"phone": user.phone, "phone_number": user.phone}
        if user.phone_confirmed_at is not None:
            content |= {"phone_verified": True, "phone_number_verified": True}
    return content


def profile_claims(user: UserRecord, granted: Collection[str]) -> dict[str, Any]:
    """The claims of the scope `profile`, without those that have no value.

    A user without a name is called by the email address, but only if the scope `email` is granted too.
    """
    if scopes.PROFILE not in granted:
        return {}
    metadata = user.user_metadata
    texts = {
        "name": _first_text(metadata, "name") or (user.email if scopes.EMAIL in granted else ""),
        "picture": _first_text(metadata, "picture", "avatar_url"),
        "preferred_username": _first_text(metadata, "preferred_username", "username"),
    }
    content: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if user.updated_at is not None:
        content["updated_at"] = int(user.updated_at.timestamp())
    return content


def _first_text(metadata: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := metadata.get(name), str) and value), "")
