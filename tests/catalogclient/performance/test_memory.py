"""Memory of lists and of large documents."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

import requests

from catalogclient import RestCatalog
from tests.catalogclient.performance import peer

T = TypeVar("T")
SNAPSHOTS = 18_000
"""Number of snapshots in a document of 5 MB."""


def _peak(call: Callable[[], T]) -> tuple[T, int]:
    """Return the result of a call and its peak memory in bytes, including the result."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_a_long_list_is_that_of_a_few_pages() -> None:
    with peer.serve() as address, RestCatalog(address) as catalog:
        few = list(itertools.islice(catalog.iter_tables("a", page_size=peer.PAGE_SIZE), 3))
        assert [table.name for table in few] == ["table-000000", "table-000001", "table-000002"]
        _, three_pages = _peak(lambda: sum(1 for _ in itertools.islice(catalog.iter_tables("a"), 3 * peer.PAGE_SIZE)))
        count, all_pages = _peak(lambda: sum(1 for _ in catalog.iter_tables("a")))
    assert count == peer.PAGES * peer.PAGE_SIZE
    assert all_pages < 1.5 * three_pages + 1_000_000


def test_memory_of_a_large_document_is_that_of_its_objects_or_of_its_bytes() -> None:
    table = ("a", f"t{SNAPSHOTS}")
    with peer.serve() as address, RestCatalog(address) as catalog, requests.Session() as session:
        url = f"{address}/v1/namespaces/a/tables/t{SNAPSHOTS}"
        size = len(session.get(url, timeout=60).content)
        catalog.load_table(table)
        document, objects = _peak(lambda: json.loads(session.get(url, timeout=60).content))
        result, own = _peak(lambda: catalog.load_table_result(table))
        unread, bytes_alone = _peak(lambda: catalog.load_table_result(table, raw=True))
    assert result.raw["metadata"] == document["metadata"]
    assert own < 1.3 * objects
    assert unread is not None
    assert len(unread.content) == size
    assert bytes_alone < 1.3 * size + 1_000_000
