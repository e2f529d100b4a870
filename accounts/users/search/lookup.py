"""Who may be meant by what somebody has typed: exactly known users first, else those whose address or name has it."""

from __future__ import annotations

from uuid import UUID

from accounts.users import identifiers, queries
from accounts.users.search import conditions, pages
from accounts.users.search.filters import Selection


def meant_by(text: str, *, audience: str, most: int) -> list[UUID]:
    """Ids of up to `most` users, the newest ones when there are more.

    An id, a whole address or a whole number finds its user in every audience, by unique indexes; if it finds one,
    nothing else is looked for. Parts of an address or full name find users of `audience`, with the list's own bounds.
    """
    text = text.strip()
    if not text:
        return []
    exact = _known_as(text, audience=audience)
    if exact:
        return exact
    found = pages.stretch(Selection(aud=audience, filter=text), after=None, size=most).found
    return [UUID(each.user[1]) for each in found]


def is_searched_in_part(text: str) -> bool:
    """Whether `meant_by` looks for parts this short among the newest users and at the beginning only."""
    return conditions.is_out_of_reach(Selection(aud="", filter=text.strip()))


def _known_as(text: str, *, audience: str) -> list[UUID]:
    if user_id := identifiers.uuid(text):
        return [user_id] if queries.by_id(user_id) else []
    if "@" in text:
        address = identifiers.lower_email(text)
        row = queries.by_email(address, aud=None)
        of_sso = pages.stretch(Selection(aud=audience, email=address), after=None, size=10).found
        return list(dict.fromkeys([*([row[0]] if row else []), *(UUID(each.user[1]) for each in of_sso)]))
    number = identifiers.bare_phone(text)
    row = queries.by_phone(number, aud=None) if number.isascii() and number.isdigit() else None
    return [row[0]] if row else []
