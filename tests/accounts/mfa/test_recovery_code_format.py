"""The format of recovery codes, and the normalisation of typed ones."""

from __future__ import annotations

import re
from uuid import UUID, uuid4

import pytest

from accounts.mfa import recovery_codes

USER = UUID("11111111-1111-4111-8111-111111111111")
CODE = "0o1i-lk2m-9xyz-abcd".replace("o", "0").replace("i", "1").replace("l", "1")


def test_set_has_ten_codes_of_80_bits_in_unambiguous_letters() -> None:
    codes = recovery_codes.generate()
    assert len(set(codes)) == 10
    for code in codes:
        assert re.fullmatch(r"[0-9a-hjkmnp-tv-z]{4}(-[0-9a-hjkmnp-tv-z]{4}){3}", code), code
    assert not set(codes) & set(recovery_codes.generate())


@pytest.mark.parametrize(
    "typed",
    [
        CODE.upper(),
        CODE.replace("-", ""),
        CODE.replace("-", " "),
        f"  {CODE}\n",
        CODE.replace("0", "O").replace("1", "I"),
        CODE.replace("1", "l"),
    ],
)
def test_digest_ignores_notation_of_code(typed: str) -> None:
    assert recovery_codes.hash_code(typed, user_id=USER) == recovery_codes.hash_code(CODE, user_id=USER)


def test_digest_depends_on_code_and_user() -> None:
    mine = recovery_codes.hash_code(CODE, user_id=USER)
    assert re.fullmatch("[0-9a-f]{64}", mine)
    assert mine != recovery_codes.hash_code(CODE, user_id=uuid4())
    assert mine != recovery_codes.hash_code(CODE[:-1] + "e", user_id=USER)
