"""What an administrator wants to know beyond the usual claims."""

from __future__ import annotations

from typing import Any

import pytest

from oauthproviders.custom import claim_mapping

SAID = {"iss": "https://id.example.com", "sub": "7", "name": "Ada L", "email": "ada@example.com"}
RAW = {**SAID, "groups": ["staff"], "tenant": None, "role": "admin"}


def applied(given: dict[str, Any], *, allowlist: tuple[str, ...] = (), said: dict[str, Any] = SAID) -> dict[str, Any]:
    return claim_mapping.apply(said, RAW, allowlist=allowlist, mapping=given)


def test_without_a_wish_claims_are_as_they_were() -> None:
    assert applied({}) == SAID


def test_what_the_allowlist_names_is_copied_where_it_is_there() -> None:
    assert applied({}, allowlist=("groups", "tenant", "missing")) == {
        **SAID,
        "custom_claims": {"groups": ["staff"], "tenant": None},
    }


def test_what_is_copied_joins_what_was_there() -> None:
    said = {**SAID, "custom_claims": {"hd": "example.com", "groups": []}}
    assert applied({}, allowlist=("groups",), said=said)["custom_claims"] == {"hd": "example.com", "groups": ["staff"]}


@pytest.mark.parametrize(
    ("given", "changes"),
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
def test_a_claim_is_taken_from_another_or_from_the_wish_itself(given: dict[str, Any], changes: dict[str, Any]) -> None:
    assert applied(given) == {key: value for key, value in {**SAID, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "given",
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
def test_a_wish_that_makes_no_claims_changes_nothing(given: dict[str, Any]) -> None:
    assert applied(given, allowlist=("groups",)) == {**SAID, "custom_claims": {"groups": ["staff"]}}


VERIFIED = {**SAID, "email_verified": True, "preferred_username": "ada@example.org"}


@pytest.mark.parametrize(
    ("given", "said", "is_verified"),
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
        ({"email": "preferred_username", "email_verified": True}, SAID | {"preferred_username": "a@example.org"}, True),
    ],
    ids=str,
)
def test_that_an_address_is_verified_is_not_passed_on_to_another(
    given: dict[str, Any], said: dict[str, Any], is_verified: bool
) -> None:
    assert applied(given, said=said).get("email_verified", False) is is_verified
