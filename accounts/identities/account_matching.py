"""The rule that finds the account of a new external identity: an existing account, a new one, or an error.

Pure functions: they use neither the database nor the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

DEFAULT_DOMAIN = "default"
_SSO = "sso:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressOwner:
    """A user who has an address: as the account's own address when `provider` is None, else in an identity."""

    user_id: UUID
    provider: str | None
    email: str
    verified: bool
    audience: str
    is_claim: bool = False
    """The account has not confirmed the address. A person controls the account, or it is of another audience."""


class MatchOutcome(Enum):
    LINK = auto()
    CREATE = auto()
    AMBIGUOUS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchDecision:
    outcome: MatchOutcome
    user_id: UUID | None = None
    """The account to link to; only with LINK."""
    email: str = ""
    """The address of the new account, `""` for none; only with CREATE."""
    claimant_id: UUID | None = None
    """The account that loses this address, because it has not confirmed it; only with CREATE."""


def linking_domain(provider: str, domains: Mapping[str, str]) -> str:
    """The linking domain of a provider. Identities are linked to accounts of their own domain only."""
    if provider.startswith(_SSO):
        return provider
    return domains.get(provider, DEFAULT_DOMAIN)


def match_account(
    *,
    provider: str,
    candidate: str,
    verified: Collection[str],
    owners: Sequence[AddressOwner],
    audience: str,
    domains: Mapping[str, str],
) -> MatchDecision:
    """Decide which account gets an identity that no account has yet.

    `candidate` is the address that a new account would get, `verified` the addresses that the provider has verified,
    `owners` the users who have one of these addresses. An account matches only by an address that the provider has
    verified, within one audience and one linking domain. Its own side must be verified too, unless no person controls
    the account yet.
    """
    domain = linking_domain(provider, domains)
    in_audience = [owner for owner in owners if owner.audience == audience]
    by_identity = {
        owner.user_id
        for owner in in_audience
        if owner.provider is not None
        and owner.verified
        and owner.email in verified
        and linking_domain(owner.provider, domains) == domain
    }
    by_account = {
        owner.user_id
        for owner in in_audience
        if domain == DEFAULT_DOMAIN and owner.provider is None and owner.email in verified and not owner.is_claim
    }
    matches = by_identity or by_account
    if len(matches) > 1:
        return MatchDecision(outcome=MatchOutcome.AMBIGUOUS)
    if matches:
        return MatchDecision(outcome=MatchOutcome.LINK, user_id=matches.pop())
    claimant_id = None
    if domain == DEFAULT_DOMAIN and candidate in verified:
        claimant_id = next((owner.user_id for owner in owners if owner.is_claim and owner.email == candidate), None)
    others = [owner for owner in owners if owner.user_id != claimant_id]
    is_taken = _is_taken(
        candidate, has_verified=bool(verified), owners=others, audience=audience, domain=domain, domains=domains
    )
    return MatchDecision(outcome=MatchOutcome.CREATE, email="" if is_taken else candidate, claimant_id=claimant_id)


def _is_taken(
    email: str,
    *,
    has_verified: bool,
    owners: Sequence[AddressOwner],
    audience: str,
    domain: str,
    domains: Mapping[str, str],
) -> bool:
    """True when a new account cannot have an address because another account has it."""
    if not email:
        return False
    others = [owner for owner in owners if owner.email == email]
    # The address of an account of the default domain is unique over all audiences.
    if domain == DEFAULT_DOMAIN and any(owner.provider is None for owner in others):
        return True
    return not has_verified and any(
        owner.audience == audience
        and (owner.provider is None or linking_domain(owner.provider, domains) == DEFAULT_DOMAIN)
        for owner in others
    )
