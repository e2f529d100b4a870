"""The rule that replaces the account's address when its identity is removed, as a table."""

from __future__ import annotations

import json

import pytest

from accounts.identities.errors import NoFreeEmail
from accounts.identities.linking import choose_primary_email
from accounts.users.records import IdentityRecord


def identity(email: str | None = None, *, verified: bool | None = None) -> IdentityRecord:
    data = {} if verified is None else {"email_verified": verified}
    moment = "2026-01-01T00:00:00.000000Z"
    return IdentityRecord(
        id=str(email), provider_id="7", data_json=json.dumps(data), provider="x", last_sign_in_at=None,
        created_at=moment, updated_at=moment, email=email,
    )  # fmt: skip


PROVED = identity("proved@example.com", verified=True)
CLAIMED = identity("claimed@example.com", verified=False)
UNVERIFIED = identity("unsaid@example.com")
PHONE = identity()


@pytest.mark.parametrize(
    ("email", "remaining", "taken", "expected"),
    [
        ("proved@example.com", [CLAIMED, PROVED], [], None),
        ("gone@example.com", [CLAIMED, PROVED], [], "proved@example.com"),
        ("gone@example.com", [PHONE, CLAIMED], [], ""),
        ("gone@example.com", [PHONE, UNVERIFIED], [], ""),
        ("gone@example.com", [UNVERIFIED, CLAIMED], [], ""),
        ("gone@example.com", [PHONE], [], ""),
        (
            "gone@example.com",
            [PROVED, CLAIMED],
            [PROVED.email],
            "",
        ),
        ("gone@example.com", [PROVED, PHONE], [PROVED.email], ""),
        ("", [PHONE, PROVED], [], "proved@example.com"),
    ],
)
def test_first_available_verified_address_is_chosen(
    email: str, remaining: list[IdentityRecord], taken: list[str], expected: str | None
) -> None:
    assert choose_primary_email(email, remaining, taken=taken) == expected


def test_an_address_of_another_account_cannot_be_chosen() -> None:
    with pytest.raises(NoFreeEmail):
        choose_primary_email("gone@example.com", [PROVED], taken=["proved@example.com"])
