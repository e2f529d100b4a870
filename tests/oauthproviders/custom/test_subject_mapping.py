"""The attribute mapping of `sub`, which names the account of a custom provider's user."""

from __future__ import annotations

from typing import Any

import pytest

from oauthproviders.base.contract import InvalidProviderResponse
from oauthproviders.custom.provider import map_claims

CLAIMS = {"sub": "7", "nickname": "ada"}


def test_another_claim_can_be_the_subject() -> None:
    assert map_claims(CLAIMS, {}, allowlist=(), mapping={"sub": "nickname"})["sub"] == "ada"


@pytest.mark.parametrize("constant", [5, 0, True, None, [1]])
def test_a_constant_is_ignored(constant: Any) -> None:
    assert map_claims(CLAIMS, {}, allowlist=(), mapping={"sub": constant}) == CLAIMS


@pytest.mark.parametrize("claims", [{"sub": "7"}, {"sub": "7", "nickname": "0"}, {"sub": "7", "nickname": " "}])
def test_a_missing_source_is_not_replaced_by_the_original_subject(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidProviderResponse):
        map_claims(claims, {}, allowlist=(), mapping={"sub": "nickname"})
