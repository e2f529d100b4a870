"""URLs: encoded names can be decoded."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catalogclient import CatalogError, InvalidArgumentError, TableIdentifier, _urls
from catalogclient._urls import UNIT_SEPARATOR, Levels, References, Separator
from tests.catalogclient.conftest import Connect, untimed
from tests.fakes.http_peer import HttpPeer, in_json

PLACE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
DOT = Separator.parse("%2E")

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
separators = st.sampled_from([UNIT_SEPARATOR, DOT, Separator.parse("%1D"), Separator.parse("/"), Separator.parse("~~")])


def path(levels: tuple[str, ...], table: str = "t", *, separator: Separator = UNIT_SEPARATOR, prefix: str = "") -> str:
    return _urls.path(PLACE, {"namespace": levels, "table": table}, prefix=prefix, separator=separator)


@untimed
@given(st.lists(names, min_size=1, max_size=4), names)
def test_names_round_trip_through_a_path(levels: list[str], table: str) -> None:
    sent = path(tuple(levels), table, prefix="p")
    assert sent.isascii()
    _, version, prefix, _, namespace, _, last = sent.split("/")
    assert (version, prefix) == ("v1", "p")
    assert [unquote(level) for level in namespace.split(UNIT_SEPARATOR.encoded)] == unfolded(levels)
    assert unquote(last) == table


def unfolded(levels: list[str]) -> list[str]:
    """A level that holds U+001F cannot be distinguished from two, because the interface has no escape for it."""
    return [part for level in levels for part in level.split("\x1f")]


@untimed
@given(st.lists(names, min_size=1, max_size=4), separators)
def test_names_round_trip_with_any_separator(levels: list[str], separator: Separator) -> None:
    sent = path(tuple(levels), separator=separator).split("/")[3]
    clean = [level for level in levels if separator.plain not in level and quoted(level).find(separator.encoded) < 0]
    if clean == levels:
        assert [unquote(level) for level in sent.split(separator.encoded)] == levels


def quoted(level: str) -> str:
    return path((level,)).split("/")[3]


@untimed
@example(["~", "0"], Separator.parse("~~"))  # neither level contains the separator
@given(st.lists(names, min_size=1, max_size=3), separators)
def test_levels_round_trip_through_a_query(levels: list[str], separator: Separator) -> None:
    sent = _urls.query((("parent", Levels(tuple(levels))),), separator=separator)
    value = unquote(sent.removeprefix("?parent="))
    if separator.plain.join(levels).split(separator.plain) == levels:
        assert value.split(separator.plain) == levels
    elif not any("\x1f" in level for level in levels):
        assert value.split("\x1f") == levels


@untimed
@given(st.lists(st.tuples(names, names), min_size=1, max_size=3))
def test_referenced_views_round_trip_through_a_query(views: list[tuple[str, str]]) -> None:
    result = tuple(TableIdentifier((level,), name) for level, name in views)
    sent = _urls.query((("referenced-by", References(result)),), separator=UNIT_SEPARATOR)
    items = sent.removeprefix("?referenced-by=").split(",")
    assert [unquote(item) for item in items] == [f"{level}\x1f{name}" for level, name in views]


@untimed
@given(st.text(max_size=30))
def test_a_prefix_stays_inside_the_path(prefix: str) -> None:
    try:
        sent = _urls.prefix(prefix)
    except (CatalogError, UnicodeEncodeError):
        return
    assert _urls.is_sendable_path(sent)
    assert not sent.startswith("/")


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (("accounting", "tax"), "accounting%1Ftax"),
        (("a b/c+d", "é"), "a%20b%2Fc%2Bd%1F%C3%A9"),
        (("a.b",), "a.b"),
        (("a%b",), "a%25b"),
    ],
)
def test_levels_in_a_path(levels: tuple[str, ...], expected: str) -> None:
    assert path(levels) == f"/v1/namespaces/{expected}/tables/t"


@pytest.mark.parametrize(
    ("given_", "encoded"),
    [("%2E", "%2E"), (".", "%2E"), ("%1F", "%1F"), ("\x1f", "%1F"), ("/", "%2F"), ("--", "%2D%2D")],
)
def test_separators_are_encoded(given_: str, encoded: str) -> None:
    assert Separator.parse(given_).encoded == encoded


def test_a_level_with_the_separator_is_unambiguous(connect: Connect) -> None:
    assert path(("a", "b"), separator=DOT) == "/v1/namespaces/a%2Eb/tables/t"
    assert path(("x.y", "b"), separator=DOT) == "/v1/namespaces/x.y%2Eb/tables/t"
    assert _urls.query((("parent", Levels(("x.y", "b"))),), separator=DOT) == "?parent=x.y%1Fb"
    assert _urls.query((("parent", Levels(("x", "b"))),), separator=DOT) == "?parent=x.b"


@pytest.mark.parametrize(
    ("prefix", "sent"),
    [
        ("projects/p/catalogs/c", "projects/p/catalogs/c"),
        ("arn%3Aaws%3As3", "arn%3Aaws%3As3"),
        ("main|wh", "main%7Cwh"),
        ("main%7Cwh", "main%7Cwh"),
        ("/x/", "x"),
        ("100%", "100%25"),
        ("a b?c#d", "a%20b%3Fc%23d"),
    ],
)
def test_prefixes_are_encoded_only_if_necessary(prefix: str, sent: str) -> None:
    assert _urls.prefix(prefix) == sent


@pytest.mark.parametrize("prefix", ["..", "a/../b", "./a", "%2e%2E/a"])
def test_prefixes_with_dot_segments_are_rejected(prefix: str) -> None:
    with pytest.raises(CatalogError, match="prefix"):
        _urls.prefix(prefix)


def test_the_path_of_a_base_url_is_encoded() -> None:
    assert _urls.root("http://h/\u00e9/a|b%2Fc//") == "http://h/%C3%A9/a%7Cb%2Fc"


@pytest.mark.parametrize(
    "address",
    [
        *("ftp://x", "http://u:p@x", "http://x?a=1", "http://x#f", "x", "", "http://", "http://x:0", "http://x:99999"),
        *("http://[::1", "http://x y", "http://x\n", "http://x\\y", "http://x?", 7, None),
    ],
)
def test_invalid_base_urls_are_rejected_and_not_printed(address: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        _urls.root(address)
    assert "u:p" not in repr(caught.value)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("http://127.0.0.1:8181", True),
        ("http://127.8.9.1", True),
        ("http://localhost/x", True),
        ("http://[::1]:80", True),
        ("http://x.localhost", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example", False),
        ("http://127.0.0.1.example", False),
    ],
)
def test_loopback_hosts(address: str, inside: bool) -> None:
    assert _urls.is_loopback(address) is inside


def test_a_dot_separator_is_sent_percent_encoded(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"overrides": {"namespace-separator": "%2E"}, "defaults": {}}), path="/v1/config")
    peer.respond(in_json({}))
    catalog = connect(config_mode="always")
    catalog.list_tables(["a", "b"])
    catalog.list_namespaces(parent=["x.y", "b"])
    assert [request.target for request in peer.received[1:]] == [
        "/v1/namespaces/a%2Eb/tables",
        "/v1/namespaces?parent=x.y%1Fb",
    ]


@pytest.mark.parametrize(
    ("option", "server", "sent"),
    [(None, "%2F", "a%2Fb"), ("%1D", "%2F", "a%1Db"), (None, "", "a%1Fb"), (".", None, "a%2Eb")],
)
def test_the_separator_of_the_options_takes_precedence(
    peer: HttpPeer, connect: Connect, option: str | None, server: str | None, sent: str
) -> None:
    overrides = {} if server is None else {"namespace-separator": server}
    peer.respond(in_json({"overrides": overrides}), path="/v1/config")
    peer.respond(in_json({}))
    connect(config_mode="always", namespace_separator=option).list_tables("a.b")
    assert peer.received[1].target == f"/v1/namespaces/{sent}/tables"
