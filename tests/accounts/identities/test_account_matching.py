"""The rule that finds the account of a new external identity, as a table."""

from __future__ import annotations

from uuid import UUID

import pytest

from accounts.identities.account_matching import (
    AddressOwner,
    MatchDecision,
    MatchOutcome,
    linking_domain,
    match_account,
)
from accounts.identities.external_identity import Address, candidate_address, claimed_address

ADA, BOB = UUID(int=1), UUID(int=2)
MAIL, OTHER = "ada@example.com", "other@example.com"
DOMAINS = {"github": "social", "custom:google": "social"}


def account(
    user: UUID = ADA,
    email: str = MAIL,
    *,
    provider: str | None = None,
    verified: bool = True,
    audience: str = "here",
    is_claim: bool = False,
) -> AddressOwner:
    return AddressOwner(
        user_id=user,
        provider=provider,
        email=email,
        verified=verified,
        audience=audience,
        is_claim=is_claim,
    )


def decide(
    *owners: AddressOwner, provider: str = "google", candidate: str = MAIL, verified: tuple[str, ...] = (MAIL,)
) -> MatchDecision:
    return match_account(
        provider=provider,
        candidate=candidate,
        verified=frozenset(verified),
        owners=owners,
        audience="here",
        domains=DOMAINS,
    )


def link(user: UUID = ADA) -> MatchDecision:
    return MatchDecision(outcome=MatchOutcome.LINK, user_id=user)


def create(email: str = MAIL) -> MatchDecision:
    return MatchDecision(outcome=MatchOutcome.CREATE, email=email)


AMBIGUOUS = MatchDecision(outcome=MatchOutcome.AMBIGUOUS)


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((), create()),
        ((account(),), link()),
        ((account(verified=False, is_claim=False),), link()),
        (
            (account(verified=False, is_claim=True),),
            MatchDecision(outcome=MatchOutcome.CREATE, email=MAIL, claimant_id=ADA),
        ),
        (
            (account(verified=False, is_claim=True), account(BOB, provider="github")),
            MatchDecision(outcome=MatchOutcome.CREATE, email=MAIL, claimant_id=ADA),
        ),
        ((account(verified=False, is_claim=True), account(BOB, provider="gitlab")), link(BOB)),
        ((account(provider="email"),), link()),
        ((account(), account(provider="email")), link()),
        ((account(provider="email", verified=False),), create()),
        ((account(), account(BOB, provider="email", verified=False)), link()),
        ((account(provider="gitlab"), account(BOB, provider="email")), AMBIGUOUS),
        ((account(provider="gitlab"), account(BOB)), link()),
        ((account(provider="github"),), create()),
        ((account(provider="github"), account(BOB)), link(BOB)),
        ((account(provider="sso:1"),), create()),
        ((account(audience="there"),), create("")),
        ((account(provider="gitlab", audience="there"),), create()),
        ((account(email=OTHER),), create()),
    ],
)
def test_a_verified_address_links_to_the_account_that_has_verified_it(
    owners: tuple[AddressOwner, ...], expected: MatchDecision
) -> None:
    assert decide(*owners) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((), create()),
        ((account(),), create("")),
        ((account(audience="there"),), create("")),
        ((account(provider="email"),), create("")),
        ((account(provider="email", verified=False),), create("")),
        ((account(provider="email", audience="there"),), create()),
        ((account(provider="github"),), create()),
        ((account(provider="sso:1"),), create()),
    ],
)
def test_unverified_address_matches_no_account(owners: tuple[AddressOwner, ...], expected: MatchDecision) -> None:
    assert decide(*owners, verified=()) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((account(),), create()),
        ((account(provider="custom:google"),), link()),
        ((account(provider="google"),), create()),
        ((account(provider="custom:google"), account(BOB, provider="github")), AMBIGUOUS),
    ],
)
def test_accounts_match_within_their_linking_domain_only(
    owners: tuple[AddressOwner, ...], expected: MatchDecision
) -> None:
    assert decide(*owners, provider="github") == expected


def test_each_single_sign_on_provider_is_its_own_linking_domain() -> None:
    assert decide(account(provider="sso:1"), provider="sso:1") == link()
    assert decide(account(provider="sso:2"), provider="sso:1") == create()
    assert decide(account(), provider="sso:1") == create()


def test_any_verified_address_matches() -> None:
    assert decide(account(email=OTHER), verified=(MAIL, OTHER)) == link()
    assert decide(account(email=OTHER), verified=(OTHER,)) == link()
    assert decide(account(), account(BOB, email=OTHER), verified=(MAIL, OTHER)) == AMBIGUOUS


def test_an_unverified_primary_address_is_not_taken_from_another_account() -> None:
    assert decide(account(), verified=(OTHER,)) == create("")


@pytest.mark.parametrize(
    ("provider", "domain"),
    [
        ("github", "social"),
        ("custom:google", "social"),
        ("google", "default"),
        ("email", "default"),
        ("sso:x", "sso:x"),
    ],
)
def test_linking_domain_of_a_provider(provider: str, domain: str) -> None:
    assert linking_domain(provider, {**DOMAINS, "sso:x": "elsewhere"}) == domain


FIRST, SECOND = Address(email="a@example.com"), Address(email="b@example.com", verified=True)
PRIMARY = Address(email="c@example.com", primary=True)


@pytest.mark.parametrize(
    ("addresses", "in_identity", "for_account"),
    [
        ((), None, ""),
        ((FIRST, SECOND), SECOND, ""),
        ((FIRST, PRIMARY, SECOND), PRIMARY, "c@example.com"),
    ],
)
def test_the_primary_address_is_preferred(
    addresses: tuple[Address, ...], in_identity: Address | None, for_account: str
) -> None:
    assert claimed_address(addresses) == in_identity
    assert candidate_address(addresses).email == for_account
