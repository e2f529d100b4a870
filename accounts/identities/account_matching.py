"""The rule by which somebody who has signed in elsewhere is given an account: theirs, a new one, or none.

No database and no clock: what is known comes in, the decision comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

from accounts.identities.external_identity import Address

DEFAULT_DOMAIN = "default"
_SSO = "sso:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Somebody known by an address: by the account itself when `provider` is None, else by an identity."""

    user_id: UUID
    provider: str | None
    email: str
    verified: bool
    audience: str


class Kind(Enum):
    LINK = auto()
    CREATE = auto()
    SEVERAL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    kind: Kind
    user_id: UUID | None = None
    """Whose account it is; with LINK alone."""
    email: str = ""
    """The address of the new account, `""` for none; with CREATE alone."""


def domain_of(provider: str, domains: Mapping[str, str]) -> str:
    """The domain of a provider: identities find accounts of their own domain alone."""
    if provider.startswith(_SSO):
        return provider
    return domains.get(provider, DEFAULT_DOMAIN)


def claimed(addresses: Sequence[Address]) -> Address | None:
    """The address that stands in the identity: the primary one, or the last there is."""
    return next((each for each in addresses if each.primary), addresses[-1] if addresses else None)


def candidate(addresses: Sequence[Address]) -> Address:
    """The address that an account could be given; one of no text when no address is the primary one."""
    primary = [each for each in addresses if each.primary]
    return primary[-1] if primary else Address(email="")


def decide(
    *,
    provider: str,
    wanted: Address,
    proved: Collection[str],
    owners: Sequence[Owner],
    audience: str,
    domains: Mapping[str, str],
) -> Decision:
    """Whose account an identity belongs to that nobody has yet.

    `wanted` is the candidate address, `proved` those that the provider has verified, `owners` whoever has one of them.
    Nobody is found by an address that was not proved on both sides, or across audiences and domains.
    """
    domain = domain_of(provider, domains)
    here = [owner for owner in owners if owner.audience == audience]
    by_identity = {
        owner.user_id
        for owner in here
        if owner.provider is not None
        and owner.verified
        and owner.email in proved
        and domain_of(owner.provider, domains) == domain
    }
    by_account = {
        owner.user_id for owner in here if domain == DEFAULT_DOMAIN and owner.provider is None and owner.email in proved
    }
    found = by_identity or by_account
    if len(found) > 1:
        return Decision(kind=Kind.SEVERAL)
    if found:
        return Decision(kind=Kind.LINK, user_id=found.pop())
    taken = _is_taken(wanted.email, proved=proved, owners=owners, audience=audience, domain=domain, domains=domains)
    return Decision(kind=Kind.CREATE, email="" if taken else wanted.email)


def _is_taken(
    email: str,
    *,
    proved: Collection[str],
    owners: Sequence[Owner],
    audience: str,
    domain: str,
    domains: Mapping[str, str],
) -> bool:
    """Whether a new account cannot have an address because somebody else is known by it."""
    if not email:
        return False
    others = [owner for owner in owners if owner.email == email]
    # An address is unique over all audiences among accounts that are found by it.
    if domain == DEFAULT_DOMAIN and any(owner.provider is None for owner in others):
        return True
    return not proved and any(
        owner.audience == audience and (owner.provider is None or domain_of(owner.provider, domains) == DEFAULT_DOMAIN)
        for owner in others
    )
