"""Texts, attributes and copies of errors."""

from __future__ import annotations

import pickle

import pytest

import catalogclient
from catalogclient import CatalogError, CommitStateUnknownError, NoSuchTableError, OAuthError, errors


def every(parent: type[CatalogError] = CatalogError) -> set[type[CatalogError]]:
    return {parent}.union(*(every(child) for child in parent.__subclasses__()))


def test_every_error_class_is_public_and_in_the_tree_of_the_docstring() -> None:
    for kind in every():
        error = kind("m")
        assert (error.message, error.status, error.attempts) == ("m", 0, 0)
        assert hasattr(catalogclient, kind.__name__)
        name = kind.__name__.removeprefix("NoSuch").removesuffix("Error")
        assert name in (errors.__doc__ or "")


def test_the_text_contains_status_type_and_operation() -> None:
    error = NoSuchTableError("gone", status=404, type="NoSuchTableException", operation="load_table")
    assert str(error) == "gone [HTTP 404 NoSuchTableException, load_table]"
    assert repr(error) == "NoSuchTableError('gone [HTTP 404 NoSuchTableException, load_table]')"
    assert str(CatalogError("plain")) == "plain"


def test_the_text_is_one_line_of_limited_length() -> None:
    text = str(CatalogError("a\r\n\x1b[31mb" + "x" * 900, operation="o\n"))
    assert text.isprintable()
    assert len(text) < 600


@pytest.mark.parametrize("kind", sorted(every(), key=repr), ids=repr)
def test_pickled_errors_have_no_details(kind: type[CatalogError]) -> None:
    error = kind("m", status=7, details={"secret": "s3cr3t"}, stack=["a"])
    error.__cause__ = ValueError("s3cr3t")
    blob = pickle.dumps(error)
    assert b"s3cr3t" not in blob
    copy = pickle.loads(blob)
    assert type(copy) is kind
    assert (copy.message, copy.status, copy.stack, str(copy)) == ("m", 7, ["a"], str(error))


def test_special_attributes() -> None:
    assert CommitStateUnknownError("m").is_commit_state_unknown
    assert CommitStateUnknownError("m").maybe_applied
    assert CatalogError("m", type="CommitStateUnknownException").is_commit_state_unknown
    assert OAuthError("m", error="invalid_client").error == "invalid_client"
    assert [CatalogError("m", status=status).is_retryable for status in (429, 500, 501, 404)] == [
        True,
        True,
        False,
        False,
    ]
    assert errors.ConnectError("m").is_retryable
    assert not errors.TlsError("m").is_retryable
    assert [CatalogError(status=status).is_forbidden for status in (401, 403)] == [False, True]
    assert [CatalogError(status=status).is_unauthorized for status in (401, 403)] == [True, False]
