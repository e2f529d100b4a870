"""Finds the user for an id, email address or phone number on the command line."""

from __future__ import annotations

from django.core.management.base import CommandError

from accounts.models import User
from accounts.users import identifiers
from authsvc.personal_data import DataSubject


def find(text: str, *, audience: str | None = None) -> User | None:
    """The user, or None. `audience` restricts addresses, not ids. Raises CommandError if several users match."""
    user_id = identifiers.uuid(text)
    if user_id is not None:
        return User.objects.filter(id=user_id).first()
    lookup = {"email": identifiers.lower_email(text)} if "@" in text else {"phone": identifiers.bare_phone(text)}
    matching = User.objects.filter(**lookup)
    if audience is not None:
        matching = matching.filter(aud=audience)
    users = list(matching.order_by("created_at", "id")[:10])
    if len(users) > 1:
        raise CommandError(f"several users match, specify an id: {', '.join(str(user.id) for user in users)}")
    return users[0] if users else None


def get(text: str, *, audience: str | None = None) -> User:
    """As `find`. Raises CommandError if no user matches."""
    user = find(text, audience=audience)
    if user is None:
        raise CommandError("user not found")
    return user


def data_subject(user: User) -> DataSubject:
    """The user with all addresses and phone numbers that rows without an id may contain."""
    names = (user.email, user.phone, user.email_change, user.phone_change)
    return DataSubject(id=user.id, addresses=frozenset(name for name in names if name))
