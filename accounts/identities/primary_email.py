"""The rule by which another identity's address becomes the account's, when the identity it came from is gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson

from accounts.users.records import IdentityRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """The account's new address, `""` for none."""

    email: str
    verified: bool


class NothingFree(Exception):
    """Every address that is left belongs to somebody else."""


def choose(email: str, remaining: Sequence[IdentityRecord], *, taken: Collection[str]) -> Promoted | None:
    """What takes the place of an account's `email`; None when an identity that remains still has it.

    `remaining` in the order of their creation; `taken` are addresses of others. A verified address goes before one
    that is not, and that before none at all. Raises NothingFree.
    """
    if email and any(identity.email == email for identity in remaining):
        return None
    for identity in sorted(remaining, key=_rank):
        if not identity.email:
            return Promoted(email="", verified=False)
        if identity.email not in taken:
            return Promoted(email=identity.email, verified=_is_verified(identity))
    raise NothingFree


def _rank(identity: IdentityRecord) -> int:
    if not identity.email:
        return 2
    return 0 if _is_verified(identity) else 1


def _is_verified(identity: IdentityRecord) -> bool:
    return orjson.loads(identity.data_json).get("email_verified") is True
