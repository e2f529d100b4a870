"""Long lists stream: what they cost does not grow with their length."""

from __future__ import annotations

import itertools
import tracemalloc

from catalogclient import RestCatalog
from tests.catalogclient.performance import peer


def test_a_hundred_thousand_tables_cost_no_more_than_a_few_pages() -> None:
    with peer.serve() as address, RestCatalog(address) as catalog:
        few = list(itertools.islice(catalog.iter_tables("a", page_size=peer.PAGE_SIZE), 3))
        assert [each.name for each in few] == ["table-000000", "table-000001", "table-000002"]
        tracemalloc.start()
        try:
            count = sum(1 for _ in itertools.islice(catalog.iter_tables("a"), 3 * peer.PAGE_SIZE))
            _, of_three_pages = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            count = sum(1 for _ in catalog.iter_tables("a"))
            _, of_all = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert count == peer.PAGES * peer.PAGE_SIZE
    assert of_all < 1.5 * of_three_pages + 1_000_000
