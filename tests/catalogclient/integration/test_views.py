"""Views on every server."""

from __future__ import annotations

import pytest

from catalogclient import AlreadyExistsError, CatalogError, NoSuchViewError, RestCatalog, requirements, types, updates
from tests.catalogclient.integration import documents
from tests.catalogclient.servers.running import Ability, CatalogServer


@pytest.fixture(autouse=True)
def _views(server: CatalogServer) -> None:
    server.need(Ability.VIEWS)


def test_creates_replaces_renames_and_drops_a_view(catalog: RestCatalog, namespace: str) -> None:
    view = (namespace, "towns")
    assert not catalog.view_exists(view)
    created = catalog.create_view(namespace, documents.view("towns", namespace=namespace))
    assert catalog.view_exists(view)
    assert [view.name for view in catalog.list_views(namespace)] == ["towns"]
    assert [view.name for view in catalog.iter_views(namespace, page_size=1)] == ["towns"]
    replaced = catalog.replace_view(
        view,
        {
            "requirements": requirements.for_replace_view(created),
            "updates": [
                updates.add_view_version(documents.version(2, "select 2 as id, 'y' as town", namespace=namespace)),
                updates.set_current_view_version(-1),
            ],
        },
    )
    assert replaced["current-version-id"] == 2
    catalog.rename_view(view, (namespace, "places"))
    assert catalog.load_view((namespace, "places"))["view-uuid"] == created["view-uuid"]
    catalog.drop_view((namespace, "places"))
    assert not catalog.view_exists((namespace, "places"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((namespace, "places"))


def test_creating_an_existing_view(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    first = catalog.create_view(namespace, documents.view("towns", namespace=namespace))
    if server.can(Ability.CREATES_ONCE):
        with pytest.raises(AlreadyExistsError):
            catalog.create_view(namespace, documents.view("towns", namespace=namespace))
    else:
        again = catalog.create_view(namespace, documents.view("towns", namespace=namespace))
        assert again["view-uuid"] == first["view-uuid"]


def test_a_view_is_registered_from_a_metadata_file(server: CatalogServer, catalog: RestCatalog, namespace: str) -> None:
    created = catalog.create_view_result(namespace, documents.view("towns", namespace=namespace))
    assert created.metadata_location is not None
    request: types.RegisterViewRequest = {"name": "again", "metadata-location": created.metadata_location}
    if server.can(Ability.REGISTER_VIEW):
        result = catalog.register_view(namespace, request)
        assert result["view-uuid"] == created.metadata["view-uuid"]
        assert catalog.view_exists((namespace, "again"))
    else:
        with pytest.raises(CatalogError) as caught:
            catalog.register_view(namespace, request)
        assert caught.value.status == 404
