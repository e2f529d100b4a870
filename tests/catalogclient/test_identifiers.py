"""Input forms of identifiers."""

from __future__ import annotations

from typing import Any

import pytest

from catalogclient import InvalidArgumentError, NamespaceIdentifier, TableIdentifier, _identifiers


@pytest.mark.parametrize(
    ("value", "levels"),
    [
        ("a.b", ("a", "b")),
        (["a.b"], ("a.b",)),
        (("a", "b"), ("a", "b")),
        ({"namespace": ["a", "b"]}, ("a", "b")),
        (NamespaceIdentifier(("a",)), ("a",)),
    ],
)
def test_namespaces(value: Any, levels: tuple[str, ...]) -> None:
    assert _identifiers.namespace(value) == NamespaceIdentifier(levels)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a.b.t", TableIdentifier(("a", "b"), "t")),
        (["a.b", "t"], TableIdentifier(("a.b",), "t")),
        ({"namespace": ["a"], "name": "x.y"}, TableIdentifier(("a",), "x.y")),
        (TableIdentifier(("a",), "t"), TableIdentifier(("a",), "t")),
    ],
)
def test_tables(value: Any, expected: TableIdentifier) -> None:
    assert _identifiers.table(value) == expected


@pytest.mark.parametrize("value", ["", "a..b", [], [""], ["."], [".."], [None], {"namespace": "ab"}, {}, 1, ["\udcff"]])
def test_invalid_namespaces_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        _identifiers.namespace(value)


@pytest.mark.parametrize("value", ["t", ["t"], "a.", {"namespace": ["a"]}, {"name": "t"}, TableIdentifier((), "t"), 1])
def test_invalid_tables_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        _identifiers.table(value)


def test_identifiers_compare_by_value() -> None:
    table = TableIdentifier(("a", "b"), "t")
    assert table.to_dict() == {"namespace": ["a", "b"], "name": "t"}
    assert NamespaceIdentifier(("a", "b")).to_dict() == {"namespace": ["a", "b"]}
    assert str(table) == "a.b.t"
    assert str(NamespaceIdentifier(("a", "b"))) == "a.b"
    assert len({table, TableIdentifier(("a", "b"), "t")}) == 1
    assert sorted([TableIdentifier(("b",), "a"), TableIdentifier(("a",), "b")])[0].namespace == ("a",)
