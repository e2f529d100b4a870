"""Hostile URLs and forms: console pages answer with a result, an empty list or an error, and never crash."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.authsvc.console.conftest import LISTS, Console

pytestmark = pytest.mark.django_db

QUERIES = (
    "q=%00", "q=" + quote("'\";--\\%_"), "q=" + "x" * 5000, "q=%ff", "q=" + "9" * 400, "q=@", "q=+", "q=%2B",
    "q=00000000-0000-0000-0000-000000000000", "p=-1", "p=999999999999", "p=x", "o=1.2.3", "o=x", "all=", "_facets=1",
    "day=9999-12-31", "day=0001-01-01", "day=%00", "state=%00", "kind=%00", "created_at__gte=%00", "created_at__year=x",
    "created_at__year=-1", "created_at__year=99999999", "created_at__iso_year=0", "created_at__year__gte=99999999",
    "id__in=1,2", "pk=x", "_to_field=password", "_popup=1", "__proto__=1", "status=failed&status=x",
)  # fmt: skip
ROWS = ("x", "%00", "99999999999999999999999", "-1", "_00", "00000000-0000-4000-8000-000000000000", "..%2f", "1/../2")


def statuses_of(console: Console, path: str) -> list[int]:
    statuses = []
    for _ in range(4):
        response = console.get(path)
        statuses.append(response.status_code)
        if response.status_code != 302:
            break
        path = response.headers["Location"]
    return statuses


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_hostile_queries_cause_no_server_error_in_lists(inside: Console, query: str) -> None:
    for name in LISTS:
        assert statuses_of(inside, f"/operator/{name}/?{query}")[-1] in (200, 400), name


@pytest.mark.parametrize(
    "query", ["state=x", "id=x", "e=1", "created_at__gte=x", "email__regex=(", "email=%00", "raw_user_meta_data__x=%00"]
)
def test_invalid_filters_are_refused_for_pages_exports_and_whole_lists(inside: Console, query: str) -> None:
    users = "/operator/accounts/user/"
    assert statuses_of(inside, f"{users}?{query}")[-1] == 400
    assert inside.submit("/operator/", to=f"{users}export/?{query}").status_code == 400
    done = inside.submit("/operator/", to=f"{users}?{query}", action="unban", select_across="1")
    assert done.status_code == 400


@pytest.mark.parametrize("action", ["", "x", "delete_selected"])
def test_an_unknown_action_on_a_whole_list_shows_the_list(inside: Console, action: str) -> None:
    for further in ({}, {"_selected_action": "x"}, {"_save": "1"}):
        fields = {"action": action, "select_across": "1", **further}
        done = inside.submit("/operator/", to="/operator/accounts/user/", **fields)
        assert done.status_code in (200, 302, 400), further


@pytest.mark.parametrize("row", ROWS)
def test_hostile_row_ids_cause_no_server_error(inside: Console, row: str) -> None:
    for name in LISTS:
        assert statuses_of(inside, f"/operator/{name}/{row}/change/")[-1] in (200, 400, 404), name
    assert statuses_of(inside, f"/operator/accounts/user/{row}/timeline/")[-1] in (400, 404)


@pytest.mark.parametrize("row", [row for row in ROWS if "%" not in row])
def test_hostile_selections_cause_no_server_error(inside: Console, row: str) -> None:
    for name, action in (("accounts/user", "unban"), ("mailer/message", "retry"), ("tokens/session", "end")):
        fields: dict[str, Any] = {"action": action, "_selected_action": row, "source_row": row, "confirmed": "1"}
        done = inside.submit("/operator/", to=f"/operator/{name}/", **fields)
        assert done.status_code in (302, 400, 404), name


def test_the_search_of_select_boxes_does_not_exist(inside: Console) -> None:
    query = "app_label=tokens&model_name=session&field_name=user&term="
    assert inside.get(f"/operator/autocomplete/?{query}").status_code == 404
