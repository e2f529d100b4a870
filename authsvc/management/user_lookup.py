"""Which user an operator means by what they type: an id, an e-mail address or a phone number."""

from __future__ import annotations

from django.core.management.base import CommandError

from accounts.models import User
from accounts.users import identifiers
from authsvc.personal_data import DataSubject


def find(text: str, *, audience: str | None = None) -> User | None:
    """The user, of an audience if one is given unless named by id. Raises CommandError where several are meant."""
    user_id = identifiers.uuid(text)
    if user_id is not None:
        return User.objects.filter(id=user_id).first()
    known = {"email": identifiers.lower_email(text)} if "@" in text else {"phone": identifiers.bare_phone(text)}
    named = User.objects.filter(**known)
    if audience is not None:
        named = named.filter(aud=audience)
    found = list(named.order_by("created_at", "id")[:10])
    if len(found) > 1:
        raise CommandError(f"several users are meant, name one by id: {', '.join(str(user.id) for user in found)}")
    return found[0] if found else None


def get(text: str, *, audience: str | None = None) -> User:
    """As `find`. Raises CommandError also where nobody is meant."""
    user = find(text, audience=audience)
    if user is None:
        raise CommandError("there is no such user")
    return user


def person(user: User) -> DataSubject:
    """The user with everything that rows without an id know them by."""
    names = (user.email, user.phone, user.email_change, user.phone_change)
    return DataSubject(id=user.id, addresses=frozenset(name for name in names if name))
