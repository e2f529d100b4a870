"""Whose account an identity belongs to that nobody has yet: the rule as a table."""

from __future__ import annotations

from uuid import UUID

import pytest

from accounts.identities.account_matching import Decision, Kind, Owner, candidate, claimed, decide, domain_of
from accounts.identities.external_identity import Address

ADA, BOB = UUID(int=1), UUID(int=2)
MAIL, OTHER = "ada@example.com", "other@example.com"
DOMAINS = {"github": "social", "custom:google": "social"}


def account(
    user: UUID = ADA, email: str = MAIL, *, provider: str | None = None, verified: bool = True, audience: str = "here"
) -> Owner:
    return Owner(user_id=user, provider=provider, email=email, verified=verified, audience=audience)


def decided(
    *owners: Owner, provider: str = "google", wanted: str = MAIL, proved: tuple[str, ...] = (MAIL,)
) -> Decision:
    return decide(
        provider=provider,
        wanted=Address(email=wanted, verified=wanted in proved, primary=True),
        proved=frozenset(proved),
        owners=owners,
        audience="here",
        domains=DOMAINS,
    )


def link(user: UUID = ADA) -> Decision:
    return Decision(kind=Kind.LINK, user_id=user)


def create(email: str = MAIL) -> Decision:
    return Decision(kind=Kind.CREATE, email=email)


SEVERAL = Decision(kind=Kind.SEVERAL)


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((), create()),
        ((account(),), link()),
        ((account(provider="email"),), link()),
        ((account(), account(provider="email")), link()),
        ((account(provider="email", verified=False),), create()),
        ((account(), account(BOB, provider="email", verified=False)), link()),
        ((account(provider="gitlab"), account(BOB, provider="email")), SEVERAL),
        ((account(provider="gitlab"), account(BOB)), link()),
        ((account(provider="github"),), create()),
        ((account(provider="github"), account(BOB)), link(BOB)),
        ((account(provider="sso:1"),), create()),
        ((account(audience="there"),), create("")),
        ((account(provider="gitlab", audience="there"),), create()),
        ((account(email=OTHER),), create()),
    ],
)
def test_a_proved_address_leads_to_whoever_has_proved_it_too(owners: tuple[Owner, ...], expected: Decision) -> None:
    assert decided(*owners) == expected


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
def test_an_address_that_is_not_proved_leads_nowhere_and_is_not_taken_from_others(
    owners: tuple[Owner, ...], expected: Decision
) -> None:
    assert decided(*owners, proved=()) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ((account(),), create()),
        ((account(provider="custom:google"),), link()),
        ((account(provider="google"),), create()),
        ((account(provider="custom:google"), account(BOB, provider="github")), SEVERAL),
    ],
)
def test_a_linking_domain_keeps_to_itself(owners: tuple[Owner, ...], expected: Decision) -> None:
    assert decided(*owners, provider="github") == expected


def test_single_sign_on_is_a_domain_for_each_of_its_providers() -> None:
    assert decided(account(provider="sso:1"), provider="sso:1") == link()
    assert decided(account(provider="sso:2"), provider="sso:1") == create()
    assert decided(account(), provider="sso:1") == create()


def test_any_of_several_proved_addresses_will_do() -> None:
    assert decided(account(email=OTHER), proved=(MAIL, OTHER)) == link()
    assert decided(account(email=OTHER), proved=(OTHER,)) == link()
    assert decided(account(), account(BOB, email=OTHER), proved=(MAIL, OTHER)) == SEVERAL


def test_a_primary_address_that_is_not_proved_is_not_taken_from_others() -> None:
    assert decided(account(), proved=(OTHER,)) == create("")


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
def test_a_provider_has_a_domain(provider: str, domain: str) -> None:
    assert domain_of(provider, {**DOMAINS, "sso:x": "elsewhere"}) == domain


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
def test_the_primary_address_is_the_one_that_is_meant(
    addresses: tuple[Address, ...], in_identity: Address | None, for_account: str
) -> None:
    assert claimed(addresses) == in_identity
    assert candidate(addresses).email == for_account
