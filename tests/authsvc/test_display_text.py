"""Texts that others have chosen, as pages show them."""

from __future__ import annotations

import pytest

from authsvc.display_text import EMPTY, short_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, EMPTY), ("", EMPTY), ([], EMPTY), ({}, EMPTY),
        (False, "false"), (0, "0"), (["email"], '["email"]'),
        ("a\u202eb\n", "a\ufffdb\ufffd"), ("x" * 300, "x" * 200 + "…"),
    ],
)  # fmt: skip
def test_short_text(value: object, text: str) -> None:
    assert short_text(value) == text
