"""The rule that chooses the account's address when the identity it came from is removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson

from accounts.users.records import IdentityRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryEmail:
    """The account's new address, `""` for none."""

    email: str
    verified: bool


class NoAvailableEmail(Exception):
    """Every remaining address belongs to another account."""


def choose(email: str, remaining: Sequence[IdentityRecord], *, taken: Collection[str]) -> PrimaryEmail | None:
    """The replacement for an account's `email`; None when a remaining identity still has it.

    `remaining` is in order of creation; `taken` are addresses of other accounts. A verified address is preferred to an
    unverified one, and that to none. Raises NoAvailableEmail.
    """
    if email and any(identity.email == email for identity in remaining):
        return None
    for identity in sorted(remaining, key=_rank):
        if not identity.email:
            return PrimaryEmail(email="", verified=False)
        if identity.email not in taken:
            return PrimaryEmail(email=identity.email, verified=_is_verified(identity))
    raise NoAvailableEmail


def _rank(identity: IdentityRecord) -> int:
    if not identity.email:
        return 2
    return 0 if _is_verified(identity) else 1


def _is_verified(identity: IdentityRecord) -> bool:
    return orjson.loads(identity.data_json).get("email_verified") is True
