"""Claim mapping of custom providers."""

from __future__ import annotations

from typing import Any

import pytest

from oauthproviders.custom import provider

CLAIMS = {"iss": "https://id.example.com", "sub": "7", "name": "Ada L", "email": "ada@example.com"}
RAW = {**CLAIMS, "groups": ["staff"], "tenant": None, "role": "admin"}


def apply(
    mapping: dict[str, Any], *, allowlist: tuple[str, ...] = (), claims: dict[str, Any] = CLAIMS
) -> dict[str, Any]:
    return provider.map_claims(claims, RAW, allowlist=allowlist, mapping=mapping)


def test_an_empty_mapping_changes_nothing() -> None:
    assert apply({}) == CLAIMS


def test_claims_of_the_allowlist_become_custom_claims() -> None:
    assert apply({}, allowlist=("groups", "tenant", "missing")) == {
        **CLAIMS,
        "custom_claims": {"groups": ["staff"], "tenant": None},
    }


def test_existing_custom_claims_are_kept() -> None:
    claims = {**CLAIMS, "custom_claims": {"hd": "example.com", "groups": []}}
    assert apply({}, allowlist=("groups",), claims=claims)["custom_claims"] == {
        "hd": "example.com",
        "groups": ["staff"],
    }


@pytest.mark.parametrize(
    ("mapping", "changes"),
    [
        ({"nickname": "name"}, {"nickname": "Ada L"}),
        ({"nickname": "name", "full_name": "email"}, {"nickname": "Ada L", "full_name": "ada@example.com"}),
        ({"name": "email", "nickname": "name"}, {"name": "ada@example.com", "nickname": "Ada L"}),
        ({"sub": "email"}, {"sub": "ada@example.com"}),
        ({"nickname": "picture"}, {}),
        ({"nickname": "groups"}, {}),
        ({"department": "name"}, {}),
        ({"custom_claims": {"plan": "free"}}, {"custom_claims": {"plan": "free"}}),
        ({"iat": 5}, {"iat": 5}),
        ({"updated_at": 0}, {"updated_at": "1970-01-01T00:00:00Z"}),
        ({"name": None}, {"name": None}),
    ],
)
def test_a_claim_is_mapped_from_another_claim_or_a_constant(mapping: dict[str, Any], changes: dict[str, Any]) -> None:
    assert apply(mapping) == {key: value for key, value in {**CLAIMS, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "mapping",
    [
        {"nickname": "name", "name": 5},
        {"sub": None},
        {"sub": False},
        {"sub": [1]},
        {"nickname": {"a": 1}},
        {"iat": [1]},
        {"custom_claims": [1]},
        {"nickname": True, "full_name": "name"},
    ],
)
def test_an_invalid_mapping_changes_nothing(mapping: dict[str, Any]) -> None:
    assert apply(mapping, allowlist=("groups",)) == {**CLAIMS, "custom_claims": {"groups": ["staff"]}}


VERIFIED = {**CLAIMS, "email_verified": True, "preferred_username": "ada@example.org"}


@pytest.mark.parametrize(
    ("mapping", "claims", "is_verified"),
    [
        ({}, VERIFIED, True),
        ({"nickname": "email"}, VERIFIED, True),
        ({"email": "email"}, VERIFIED, True),
        ({"email": "picture"}, VERIFIED, True),
        ({"email": "preferred_username"}, VERIFIED, False),
        ({"email": None}, VERIFIED, False),
        ({"email": "preferred_username"}, {**VERIFIED, "email": "ada@example.org"}, True),
        (
            {"email": "preferred_username", "email_verified": "phone_verified"},
            {**VERIFIED, "phone_verified": True},
            True,
        ),
        (
            {"email": "preferred_username", "email_verified": True},
            CLAIMS | {"preferred_username": "a@example.org"},
            True,
        ),
    ],
    ids=str,
)
def test_a_mapped_address_is_not_verified(mapping: dict[str, Any], claims: dict[str, Any], is_verified: bool) -> None:
    assert apply(mapping, claims=claims).get("email_verified", False) is is_verified
