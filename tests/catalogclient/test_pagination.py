"""Pagination."""

from __future__ import annotations

import itertools

import pytest

from catalogclient import (
    InvalidResponseError,
    NoSuchNamespaceError,
    RestCatalog,
    TableIdentifier,
    TablePage,
    _pagination,
)
from catalogclient._runtime import iterate
from tests.catalogclient.conftest import Connect
from tests.fakes.http_peer import HttpPeer, Received, Response, in_json


def page(names: list[str], token: str | None = None) -> Response:
    return in_json({"identifiers": [{"namespace": ["a"], "name": name} for name in names], "next-page-token": token})


def queries(peer: HttpPeer) -> list[str]:
    return [request.target.partition("?")[2] for request in peer.received]


def test_empty_pages_do_not_end_the_list(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(page(["x", "y"], "t1"), page([], "t 2"), page(["z"]))
    assert [table.name for table in connect().iter_tables("a", page_size=2)] == ["x", "y", "z"]
    assert queries(peer) == ["pageToken=&pageSize=2", "pageToken=t1&pageSize=2", "pageToken=t%202&pageSize=2"]


def test_pages_without_a_requested_size_are_followed(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(page(["x"], "t1"), page(["y"], ""))
    assert [view.name for view in connect().iter_views("a")] == ["x", "y"]
    assert queries(peer) == ["", "pageToken=t1"]


def test_the_default_page_size_of_the_configuration_is_used(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(in_json({"defaults": {"rest-page-size": "7"}}), path="/v1/config")
    peer.respond(page([]))
    catalog = connect(config_mode="always")
    list(catalog.iter_tables("a"))
    list(catalog.iter_tables("a", page_size=3))
    assert queries(peer) == ["", "pageToken=&pageSize=7", "pageToken=&pageSize=3"]


@pytest.mark.parametrize("size", ["0", "x", "-1", "1.5", ""])
def test_an_invalid_default_page_size_is_ignored(peer: HttpPeer, connect: Connect, size: str) -> None:
    peer.respond(in_json({"defaults": {"rest-page-size": size}}), path="/v1/config")
    peer.respond(page([]))
    list(connect(config_mode="always").iter_functions("a"))
    assert queries(peer) == ["", ""]


def test_pages_are_requested_on_demand(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(page(["x", "y"], "t1"))
    tables = connect().iter_tables("a", page_size=2)
    assert peer.received == []
    assert [next(tables), next(tables)] == [TableIdentifier(("a",), "x"), TableIdentifier(("a",), "y")]
    assert len(peer.received) == 1
    tables.close()  # type: ignore[attr-defined]
    assert len(peer.received) == 1


def test_a_repeated_page_token_is_an_error(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(page(["x"], "t1"))
    with pytest.raises(InvalidResponseError, match="without end"):
        list(connect().iter_tables("a"))
    assert len(peer.received) == 2


def test_a_cycle_of_page_tokens_is_an_error(peer: HttpPeer, connect: Connect) -> None:
    peer.respond(*[page([token], token) for token in ("t1", "t2", "t3")] * 3, page([]))
    tables = connect().iter_tables("a")
    with pytest.raises(InvalidResponseError, match="without end"):
        list(tables)
    assert len(peer.received) == 4


async def no_size() -> None:
    """Return no default page size."""


def test_iterators_follow_any_number_of_pages() -> None:
    async def fetch(_size: int | None, token: str | None) -> TablePage:
        number = int(token or 0)
        result = [TableIdentifier(("a",), str(number))] if number % 2 else []
        return TablePage(result, str(number + 1) if number < 3_000 else None)

    assert len(list(iterate(_pagination.items(fetch, page_size=1, default_size=no_size)))) == 1_500


def test_endless_empty_pages_are_an_error() -> None:
    tokens = itertools.count()

    async def fetch(_size: int | None, _token: str | None) -> TablePage:
        return TablePage([], str(next(tokens)))

    with pytest.raises(InvalidResponseError, match="without end"):
        list(iterate(_pagination.items(fetch, page_size=1, default_size=no_size)))
    assert next(tokens) == 1_000


class Tree(HttpPeer):
    """Fake server of nested namespaces. With `flat` the top-level list has all levels."""

    names = [("a",), ("a", "x"), ("b",), ("a", "x", "deep"), ("a", "y")]
    flat = False
    dropped: tuple[str, ...] = ()

    def next_response(self, received: Received) -> Response:
        super().next_response(received)
        above = tuple(received.query.get("parent", "").split("\x1f")) if "parent" in received.query else ()
        if above and above == self.dropped:
            return Response(status=404)
        result = [levels for levels in self.names if levels[:-1] == above or (self.flat and not above)]
        return in_json({"namespaces": [list(levels) for levels in result]})


@pytest.mark.parametrize("flat", [False, True])
def test_recursive_iteration_yields_every_namespace_once(flat: bool) -> None:
    with Tree() as peer:
        peer.flat = flat
        with RestCatalog(peer.url) as catalog:
            result = [namespace.namespace for namespace in catalog.iter_namespaces(recursive=True)]
            assert sorted(result) == sorted(Tree.names)
            below = [namespace.namespace for namespace in catalog.iter_namespaces(parent="a", recursive=True)]
            assert below == [("a", "x"), ("a", "y"), ("a", "x", "deep")]
            direct = [namespace.namespace for namespace in catalog.iter_namespaces(parent="a")]
            assert direct == [("a", "x"), ("a", "y")]
            peer.dropped = ("b",)
            assert len(list(catalog.iter_namespaces(recursive=True))) == len(Tree.names)
            with pytest.raises(NoSuchNamespaceError):
                list(catalog.iter_namespaces(parent="b", recursive=True))
