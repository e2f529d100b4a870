"""Synchronous and asynchronous scan planning on Apache's server."""

from __future__ import annotations

import pytest

from catalogclient import CatalogError, NoSuchPlanIdError, NoSuchPlanTaskError, RestCatalog
from tests.catalogclient.integration import documents
from tests.catalogclient.servers import apache
from tests.catalogclient.servers.running import Ability, CatalogServer

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed")

from tests.catalogclient.integration import pyiceberg_peer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(params=[name for name, abilities in apache.ABILITIES.items() if Ability.PLANNING in abilities])
def server(request: pytest.FixtureRequest, apache_servers: dict[str, CatalogServer]) -> CatalogServer:
    """Servers that support scan planning."""
    return apache_servers[request.param]


@pytest.fixture
def orders(server: CatalogServer, catalog: RestCatalog, namespace: str) -> tuple[str, str]:
    """Table with three files."""
    catalog.create_table(namespace, documents.table("orders"))
    table = pyiceberg_peer.connect(server).load_table((namespace, "orders"))
    for number in range(3):
        table.append(pyiceberg_peer.rows(number))
    return namespace, "orders"


def test_a_plan_lists_every_file_once(catalog: RestCatalog, orders: tuple[str, str]) -> None:
    with catalog.plan_scan(orders) as plan:
        result = list(plan)
    paths = [task["data-file"]["file-path"] for task, _ in result]
    assert len(paths) == len(set(paths)) == 3
    assert [task["data-file"]["record-count"] for task, _ in result] == [1, 1, 1]
    assert [deletes for _, deletes in result] == [[], [], []]


def test_a_filter_excludes_files(catalog: RestCatalog, orders: tuple[str, str]) -> None:
    with catalog.plan_scan(orders, {"filter": {"type": "eq", "term": "id", "value": 1}}) as plan:
        assert len(list(plan)) == 1


def test_an_older_snapshot_has_fewer_files(catalog: RestCatalog, orders: tuple[str, str]) -> None:
    first = catalog.load_table(orders)["snapshots"][0]["snapshot-id"]
    with catalog.plan_scan(orders, {"snapshot-id": first}) as plan:
        assert len(list(plan)) == 1


def test_the_steps_of_a_plan(server: CatalogServer, catalog: RestCatalog, orders: tuple[str, str]) -> None:
    planned = catalog.plan_table_scan(orders, {"select": ["id"]})
    if server.can(Ability.ASYNC_PLANNING):
        assert planned.status == "submitted"
        assert planned.plan_id
        planned = catalog.fetch_planning_result(orders, planned.plan_id)
        assert planned.status in {"submitted", "completed"}
    else:
        assert planned.status == "completed"
        assert len(planned.file_scan_tasks) == 3


def test_cancels_a_plan(server: CatalogServer, catalog: RestCatalog, orders: tuple[str, str]) -> None:
    planned = catalog.plan_table_scan(orders)
    assert planned.plan_id
    catalog.cancel_planning(orders, planned.plan_id)
    if server.can(Ability.ASYNC_PLANNING):
        assert catalog.fetch_planning_result(orders, planned.plan_id).status == "cancelled"


def test_only_an_unfinished_scan_is_cancelled(
    server: CatalogServer, catalog: RestCatalog, orders: tuple[str, str]
) -> None:
    if not server.can(Ability.ASYNC_PLANNING):
        pytest.skip(f"{server.name} keeps no plans")
    with catalog.plan_scan(orders) as whole:
        assert len(list(whole)) == 3
    assert whole.plan_id
    assert catalog.fetch_planning_result(orders, whole.plan_id).status == "completed"
    with catalog.plan_scan(orders) as left:
        next(left)
    assert left.plan_id
    with pytest.raises(NoSuchPlanIdError):
        catalog.fetch_planning_result(orders, left.plan_id)


def test_unknown_plans_and_unknown_tasks_raise_different_errors(catalog: RestCatalog, orders: tuple[str, str]) -> None:
    with pytest.raises(NoSuchPlanIdError):
        catalog.fetch_planning_result(orders, "nothing")
    with pytest.raises(NoSuchPlanTaskError):
        catalog.fetch_scan_tasks(orders, "nothing")


def test_a_server_without_planning_returns_an_error(seaweedfs: CatalogServer) -> None:
    with seaweedfs.connect() as catalog, pytest.raises(CatalogError) as caught:
        catalog.plan_table_scan(("nothing", "here"))
    assert caught.value.status == 404
